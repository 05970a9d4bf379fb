"""PaddlePaddle v1 configs and data providers on this engine: the 2016 language, its network, its data."""
