"""`--log-to`: a run's config and metrics for MLflow and Weights & Biases, by a process of its own for each."""
