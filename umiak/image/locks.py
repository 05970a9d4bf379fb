"""The lock of the runtime, with torch as it says or from an index of CPU builds. docker/install.py uses this file on its own."""

from __future__ import annotations

import re

_CUDA = re.compile(r"(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+)==")
_SHA256 = re.compile("[0-9a-f]{64}")


def without_torch(lock: str) -> tuple[str, str]:
    """The lock without torch and what only CUDA needs, and the version of torch."""
    entries = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)
    torch = next(entry for entry in entries if entry.startswith("torch=="))
    version = torch.removeprefix("torch==").split()[0]
    return "".join(entry for entry in entries if not _CUDA.match(entry)), version


def torch_requirement(version: str, sha256: str) -> str:
    """What to install of torch: with a hash, this file and no other."""
    if not sha256:
        return f"torch=={version}\n"
    if not _SHA256.fullmatch(sha256):
        raise ValueError(f"{sha256} is not a SHA-256: write 64 hexadecimal digits, or nothing")
    return f"torch=={version} --hash=sha256:{sha256}\n"
