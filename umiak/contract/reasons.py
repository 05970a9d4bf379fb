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
