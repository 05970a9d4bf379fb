"""Who we are at a registry, as Docker knows it: ~/.docker/config.json and the helpers it names; for ECR, AWS itself."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from umiak.errors import InputError
from umiak.image.reference import HUB

Login = tuple[str, str]
# ECR's hosts: account and region. The registry of another account works if that account allows it.
ECR = re.compile(r"\d{12}\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.(com|eu|com\.cn)")
# The name under which Docker keeps the login of its own registry.
_HUB_KEY = "https://index.docker.io/v1/"
HELPER_SECONDS = 30


def login(host: str, ecr: Callable[[str], Login]) -> Login | None:
    """User and password for a registry, or None: then we are nobody there. `ecr` asks AWS, in a region."""
    if found := ECR.fullmatch(host):
        return ecr(found["region"])
    config = _config()
    key = _HUB_KEY if host == HUB else host
    helper = (config.get("credHelpers") or {}).get(key) or config.get("credsStore")
    if helper:
        return _ask(str(helper), key)
    return _written((config.get("auths") or {}).get(key) or {}, host)


def _config() -> dict[str, Any]:
    path = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {path} ({error}); correct it, or set DOCKER_CONFIG to another directory"
        ) from None
    return content if isinstance(content, dict) else {}


def _written(entry: dict[str, Any], host: str) -> Login | None:
    if not entry.get("auth"):
        return None
    try:
        user, _, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise InputError(f"the login for {host} in Docker's config.json is not base64; log in again") from None
    return user, password


def _ask(helper: str, key: str) -> Login | None:
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run(
            [program, "get"], input=key.encode(), capture_output=True, timeout=HELPER_SECONDS, check=False
        )
    except FileNotFoundError:
        raise InputError(f"Docker's config.json keeps logins in {program}, which is not installed") from None
    except subprocess.TimeoutExpired:
        raise InputError(f"{program} gave no answer within {HELPER_SECONDS} s; run `docker login` again") from None
    if done.returncode:
        # It knows nobody there: a public registry may still answer.
        return None
    found = json.loads(done.stdout)
    return str(found["Username"]), str(found["Secret"])
