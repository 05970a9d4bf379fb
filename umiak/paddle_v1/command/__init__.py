"""What the `paddle` command does with the engine: its two roles, and the attempt of `paddle survey`. umiak/cli/paddle parses."""
