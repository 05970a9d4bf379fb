"""A client of Kubernetes: kubeconfig files, requests, commands in pods, and PodSpecs. Knows nothing of jobs or of AWS."""
