"""Why a process ended, as codes for programs. Texts are for people, and no program searches them.

A reason travels as `kind` of a control message and as `reason` of a termination message. It is one of these, or the name of
the class of an error (umiak/errors.py), or empty where nobody knows more than the text says.
"""

from __future__ import annotations

OUT_OF_MEMORY = "OutOfMemory"
"""The kernel killed the process because its container reached its memory limit."""
OUT_OF_MEMORY_TEXT = "killed because it needed more memory than the container may use: give each worker more"
"""What people read. Clients of umiak 0.1 know no reasons and search this text: it stays as it is."""
STOPPED = "Stopped"
"""It was asked to stop, and did: no failure."""

MORE_MEMORY = "raise memory in job.yaml, or use more workers: each then holds less of the model"
POD_ADVICE = {
    2: "correct this, `umiak job delete` the job and submit it again: it resumes from the last checkpoint",
    75: "the pod is replaced and training resumes from the last checkpoint",
    1: "a defect: the whole log is in node_N/ of the output on the volume",
}
"""What to do about a pod that failed, by its exit code."""


def pod_advice(reason: str, code: int | None) -> str:
    # The kernel may kill one process of a pod and spare the one that reports it.
    return MORE_MEMORY if reason == OUT_OF_MEMORY else POD_ADVICE.get(code or 0, "")
