"""The pod contract (docs/pod-contract.md): what whoever starts a pod and the pod itself agree on.

Both sides import it: `umiak.jobs` writes what `umiak.pod` reads, and the other way round. It imports nothing of ours but messages
and errors.
"""
