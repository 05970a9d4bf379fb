"""PaddlePaddle v1 and the pods of 2016 and 2017, in rooms: each subpackage says in its first line what it is for."""
