"""`umiak page [DIR …]`: a page about all runs below some directories, for a browser on this machine."""

from __future__ import annotations

import argparse
import ipaddress
import secrets
import socket
import sys
import webbrowser
from pathlib import Path

from umiak.cli.arguments import Parser
from umiak.errors import InputError
from umiak.extras import needed

PORT = 6116


def run(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    with needed("page", "umiak page needs"):
        return _serve(options)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="umiak page", description="A page about all runs below some directories. It only reads.")
    parser.add_argument("directories", nargs="*", type=Path, metavar="DIR", help="where runs are (default: here)")
    parser.add_argument("--port", type=int, metavar="N", help=f"port to listen on (default: {PORT}, or a free one)")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on (default: %(default)s)"
    )
    parser.add_argument(
        "--tls", nargs=2, type=Path, metavar=("CERT", "KEY"), help="serve over HTTPS with these PEM files"
    )
    parser.add_argument("--insecure", action="store_true", help="allow --host beyond this machine without TLS")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    return parser


def _serve(options: argparse.Namespace) -> int:
    from umiak.page import server
    from umiak.page.index import Index

    _check_host(options)
    for path in options.tls or ():
        if not path.is_file():
            raise InputError(f"--tls: {path} is no file; name a certificate and its key in PEM form")
    index = Index(options.directories or [Path()])
    server.check_static(server.STATIC)
    listener = _listen(options.host, options.port)
    port = listener.getsockname()[1]
    token, scheme = secrets.token_urlsafe(24), "https" if options.tls else "http"
    names = ["127.0.0.1", "localhost"] if options.host == "127.0.0.1" else [_bracketed(options.host)]
    app = server.application(index, server.STATIC, [f"{name}:{port}" for name in names], scheme, port, token)
    address = f"{scheme}://{names[0]}:{port}/?token={token}"
    print(address, flush=True)
    if not options.no_browser:
        webbrowser.open(address)
    server.serve(app, listener, tuple(options.tls) if options.tls else None).run(sockets=[listener])
    return 0


def _check_host(options: argparse.Namespace) -> None:
    try:
        address = ipaddress.ip_address(options.host)
    except ValueError:
        raise InputError(f"--host {options.host!r} is no IP address: write one, like 127.0.0.1") from None
    if address.is_unspecified:
        raise InputError(f"--host {options.host} names no address that a browser could check: write the machine's own")
    if address.is_loopback or options.tls:
        return
    if not options.insecure:
        raise InputError("--host beyond this machine needs --tls CERT KEY, or --insecure to do without")
    print(
        "umiak: warning: --insecure: whoever can see this network's traffic can read configs, metrics and logs of all runs",
        file=sys.stderr,
    )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listen(host: str, port: int | None) -> socket.socket:
    """The wanted port; without one, the usual one or any that is free: two pages may run at once."""
    for each in [PORT, 0] if port is None else [port]:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, each))
        except (OSError, OverflowError) as error:
            listener.close()
            reason = getattr(error, "strerror", None) or str(error)
            continue
        listener.listen(64)
        return listener
    raise InputError(f"cannot listen on {_bracketed(host)}:{port}: {reason}; choose another --port")
