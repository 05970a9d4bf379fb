"""Installs what docker/requirements.lock names into this environment, every file checked against its hash.

With another source of torch than `lock`, torch and the CUDA libraries are left out of that and torch comes from the index
given, in the version of the lock; its hash is the one that index states.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CUDA = re.compile(r"(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+)==")


def without_torch(lock: str) -> tuple[str, str]:
    """The lock without torch and what only CUDA needs, and the version of torch."""
    entries = re.split(r"^(?=[A-Za-z0-9])", lock, flags=re.MULTILINE)
    torch = next(entry for entry in entries if entry.startswith("torch=="))
    version = torch.removeprefix("torch==").split()[0]
    return "".join(entry for entry in entries if not CUDA.match(entry)), version


def main(source: str) -> None:
    python = [sys.executable, "-m"]
    run(
        [*python, "pip", "install", "--quiet", "--no-cache-dir", "--require-hashes", "-r", str(HERE / "bootstrap.lock")]
    )
    install = [*python, "uv", "pip", "install", "--no-cache", "--compile-bytecode", "--python", sys.executable]
    lock = HERE / "requirements.lock"
    if source != "lock":
        rest, version = without_torch(lock.read_text())
        lock = HERE / "without-torch.lock"
        lock.write_text(rest)
        run([*install, "--no-deps", "--index-url", source, f"torch=={version}"])
    run([*install, "--require-hashes", "-r", str(lock)])
    path = subprocess.check_output(
        [sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    )
    Path(path.strip(), "umiak-code.pth").write_text("/opt/umiak/code\n")
    run([*python, "pip", "uninstall", "--quiet", "--yes", "uv", "pip"])


def run(command: list[str]) -> None:
    certificates = {"SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt"}
    env = os.environ | (certificates if Path(certificates["SSL_CERT_FILE"]).exists() else {})
    subprocess.run(command, check=True, env=env)


if __name__ == "__main__":
    main(sys.argv[1])
