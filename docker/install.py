"""Installs what umiak/image/runtime.lock names into this environment, every file checked against its hash.

With another source of torch than `lock`, torch and the CUDA libraries are left out of that and torch comes from the index
given, in the version of the lock: checked against the SHA-256 that is given with it, else only against what the index states.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Beside this file in the build; in the repository it is umiak/image/locks.py.
from locks import torch_requirement, without_torch

HERE = Path(__file__).parent


def from_index(source: str, requirement: Path) -> list[str]:
    """pip's words, not uv's: the file on the index is a local version (2.13.0+cpu), for which uv finds no hash."""
    verify = ["--require-hashes"] if "--hash=" in requirement.read_text() else []
    return ["--no-deps", "--index-url", source, *verify, "-r", str(requirement)]


def main(source: str, sha256: str) -> None:
    if source == "lock" and sha256:
        sys.exit("TORCH_SHA256 is for another source than TORCH=lock, which has its own hashes: leave it out")
    python = [sys.executable, "-m"]
    run(
        [*python, "pip", "install", "--quiet", "--no-cache-dir", "--require-hashes", "-r", str(HERE / "bootstrap.lock")]
    )
    install = [*python, "uv", "pip", "install", "--no-cache", "--compile-bytecode", "--python", sys.executable]
    lock = HERE / "runtime.lock"
    if source != "lock":
        rest, version = without_torch(lock.read_text())
        lock = HERE / "without-torch.lock"
        lock.write_text(rest)
        torch = HERE / "torch.lock"
        try:
            torch.write_text(torch_requirement(version, sha256))
        except ValueError as error:
            sys.exit(f"TORCH_SHA256: {error}")
        run([*python, "pip", "install", "--quiet", "--no-cache-dir", *from_index(source, torch)])
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
    main(sys.argv[1], sys.argv[2])
