"""The config language of v1: runs a config file with the helpers of its time, which build a graph (umiak/paddle_v1/graph.py)."""
