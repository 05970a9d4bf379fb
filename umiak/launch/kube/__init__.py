"""A job as pods: manifests from a job.yaml, and what the cluster says about them. `api.py` is the only door to Kubernetes."""
