"""Flags of `umiak train` that a job may not carry, by the names of their settings."""

from __future__ import annotations

BY_POD = ("workers", "servers", "local", "save_dir", "resume", "transport", "tls", "insecure", "port")
"""A pod sets these itself: UMIAK_ARGS may not hold them."""
BY_JOB_FILE = ("config", "config_args", "num_passes", "mode", "job", "overwrite")
"""Other fields of job.yaml decide these: its `flags` may hold neither them nor BY_POD."""
