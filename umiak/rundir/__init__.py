"""The run directory: where everything in it lies, the formats of checkpoints and snapshots, and who may write there."""
