"""A running job on the screen, for the command line and for Python."""
