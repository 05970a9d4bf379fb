"""A boto3 session that asks for a code (MFA) as seldom as the AWS CLI: sessions of roles are kept where the CLI keeps them.

So `aws`, `umiak cluster` and the kubeconfig's plugin share one sign-in, and whoever cannot be asked says so in one line.
"""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import Any

from umiak.errors import InputError

# The AWS CLI's own (awscli/customizations/assumerole.py).
CACHE = Path("~/.aws/cli/cache")
PROVIDERS = ("assume-role", "assume-role-with-web-identity")


def session() -> Any:
    import boto3
    from botocore.credentials import JSONFileCache

    made = boto3.Session()
    chain = made._session.get_component("credential_provider")
    kept = JSONFileCache(str(CACHE.expanduser()))
    for name in PROVIDERS:
        chain.get_provider(name).cache = kept
    # botocore has no public way to say who is asked.
    chain.get_provider("assume-role")._prompter = ask
    return made


def ask(question: str) -> str:
    """The code, from a person at a terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        profile = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
        raise InputError(
            f"the AWS profile {profile} requires a code (MFA), and there is no terminal to ask at: run "
            f"`aws sts get-caller-identity --profile {profile}` at one, then this again; the session is kept in {CACHE}"
        )
    try:
        return getpass.getpass(question)
    except (EOFError, KeyboardInterrupt):
        raise InputError("no code (MFA) was given, so there are no AWS credentials; run this again") from None
