"""A graph written down: as the messages of v1 in bytes or text, as a diagram, and as `umiak show` tells it."""
