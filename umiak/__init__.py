"""Umiak: parameter-server training from a laptop to a Kubernetes cluster on AWS and back."""

__version__ = "0.1.0"
