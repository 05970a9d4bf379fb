"""`umiak page [DIR …]`: a page about all runs below some directories, for a browser on this machine."""

from __future__ import annotations

import argparse
import ipaddress
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from umiak.cli.arguments import Parser
from umiak.errors import InputError
from umiak.extras import needed

if TYPE_CHECKING:
    from umiak.page.cost import Price

PORT = 6116


def run(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    if options.export:
        return _export(options)
    if options.with_logs or options.overwrite:
        raise InputError("--with-logs and --overwrite belong to --export FILE.html: add it, or leave them out")
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
    parser.add_argument(
        "--export", type=Path, metavar="FILE.html", help="write all runs and the page into one file, and serve nothing"
    )
    parser.add_argument("--with-logs", action="store_true", help="put the last lines of all logs into that file too")
    parser.add_argument("--overwrite", action="store_true", help="replace that file if it exists")
    parser.add_argument(
        "--dollars-per-hour",
        type=float,
        metavar="N",
        help="what the machines of these runs cost, to show what runs cost",
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    return parser


def _export(options: argparse.Namespace) -> int:
    from umiak.page import export
    from umiak.page.index import Index

    index = Index(options.directories or [Path()], price=_price(options))
    size = export.export(index, options.export, options.with_logs, options.overwrite)
    count = len(index.runs)
    print(f"{options.export}: {count:,} run{'s' if count > 1 else ''}, {size / 1e6:.1f} MB; open it in any browser")
    return 0


def _price(options: argparse.Namespace) -> Price | None:
    from umiak.page import cost

    if options.dollars_per_hour is None:
        return None
    if not 0 <= options.dollars_per_hour < 1e6:
        raise InputError(f"--dollars-per-hour {options.dollars_per_hour:g} is not a price: write one like 3.20")
    return cost.given(options.dollars_per_hour)


def _serve(options: argparse.Namespace) -> int:
    from umiak.page import cache, serving
    from umiak.page.index import Index

    _check_host(options)
    for path in options.tls or ():
        if not path.is_file():
            raise InputError(f"--tls: {path} is not a file; name a certificate and its key in PEM form")
    index = Index(options.directories or [Path()], price=_price(options), cache=cache.directory())
    page = serving.prepare(index, options.host, options.port, tuple(options.tls) if options.tls else None)
    print(page.address, flush=True)
    if not options.no_browser:
        webbrowser.open(page.address)
    page.run()
    return 0


def _check_host(options: argparse.Namespace) -> None:
    try:
        address = ipaddress.ip_address(options.host)
    except ValueError:
        raise InputError(f"--host {options.host!r} is not an IP address: write one, like 127.0.0.1") from None
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
