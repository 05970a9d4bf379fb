"""The graph of a v1 config as a torch module: its layers, costs and evaluators, and their compiled loops."""
