"""Jobs on Kubernetes: manifests from a job.yaml, and what the cluster says about them. Requests go through `umiak.kube`."""
