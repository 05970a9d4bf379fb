"""`umiak VERB …`: finds the verb's file and turns errors into one line and an exit code. Everything else is the verb's."""

from __future__ import annotations

import importlib
import os
import signal
import sys

from umiak import __version__
from umiak.errors import InputError, RetryError, UmiakError

# A verb is the module of the same name in this package, imported only when it is asked for: `run(argv) -> exit code`.
VERBS = {
    "train": "train a model: workers on this machine, or --local in one process",
    "test": "measure a snapshot on the test data",
    "predict": "write a snapshot's outputs for the test data, or for any files",
    "export": "write a snapshot as safetensors",
    "show": "describe and draw a config's model, and what each service would hold",
    "page": "show runs in a browser, live",
    "checkpoint": "list, show and verify what a run can resume from",
    "data": "fetch data sets and split them into shards",
    "output": "list and download what a job on Kubernetes wrote",
    "pserver": "run one parameter server",
    "trainer": "run one trainer",
    "certs": "write the certificates of a job, for --tls",
    "bench": "measure speed against the limit and against other systems",
    "paddle": "v1's own command: paddle train, pserver and the others, with v1's defaults",
    "cluster": "plan a cluster on AWS, bring it up, remove it",
    "image": "build the runtime image and push it to a registry",
    "doctor": "check this machine, and say what to do",
    "completion": "print a script that completes umiak in bash, zsh or fish",
    "job": "train on Kubernetes: submit, watch, understand, cancel",
}
# Called by machines, not by people, and not listed.
UNLISTED = ("pod",)
INTERRUPTED = 130
PIPE_CLOSED = 141


def main(argv: list[str] | None = None, program: str = "umiak") -> int:
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["pod"]:
        signal.signal(signal.SIGTERM, _leave)
    # umiak/image/launcher.sh holds it back: the first process of a container would lose what comes before it has a handler.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except UmiakError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough. Without this the interpreter complains when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _leave(number: int, frame: object) -> None:
    """A pod that is told to end before it has begun anything."""
    sys.exit(RetryError.exit_code)


def _run(words: list[str]) -> int:
    verb, rest = (words[0], words[1:]) if words else ("--help", [])
    if verb in ("--help", "-h", "help"):
        print(_help())
        return 0
    if verb in ("--version", "version"):
        print(f"umiak {__version__}")
        return 0
    if verb not in VERBS and verb not in UNLISTED:
        raise InputError(f"unknown verb {verb!r}{nearest(verb, list(VERBS))}; umiak --help lists all")
    from umiak.paddle_v1.registration import register

    register()
    code: int = importlib.import_module(f"umiak.cli.{verb}").run(rest)
    return code


def nearest(word: str, known: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else ""


def _help() -> str:
    verbs = "\n".join(f"  {verb:<11} {text}" for verb, text in VERBS.items())
    return f"""usage: umiak VERB …

Train one model with many workers: trainers compute gradients, parameter servers hold the model.

{verbs}

umiak VERB --help explains a verb, umiak --version prints the version.
A first run: umiak train examples/recommendation/config.py --workers 3 --passes 10 --out out/first"""


if __name__ == "__main__":
    sys.exit(main())
