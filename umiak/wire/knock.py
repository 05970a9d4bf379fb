"""What comes before TLS: proof of the job's token, so that a server spends no handshake on strangers.

A handshake costs a server a millisecond of arithmetic, checking this proof some microseconds. Both sides, in this order:

    server → client   "UMKK" and 32 random bytes
    client → server   HMAC-SHA256 of those bytes under the job's token
    server → client   "+", and TLS begins; or "-", and the server hangs up

It lets nobody in: inside TLS every connection is greeted as without it (hello.py).
"""

from __future__ import annotations

import hmac
import os
import socket

from umiak.errors import InputError

MAGIC = b"UMKK"
NONCE_BYTES = 32
PROOF_BYTES = 32
YES, NO = b"+", b"-"


def nonce() -> bytes:
    return os.urandom(NONCE_BYTES)


def proof(token: bytes, given: bytes) -> bytes:
    # The label keeps this apart from the proof of a greeting, which is made with the same token.
    return hmac.digest(token, b"umiak knock " + given, "sha256")


def holds(token: bytes, given: bytes, answer: bytes) -> bool:
    return hmac.compare_digest(proof(token, given), answer)


def at(sock: socket.socket, token: bytes, peer: str) -> None:
    """Knock, as a client. Afterwards the server waits for the first message of TLS."""
    begin = _exactly(sock, len(MAGIC))
    if begin != MAGIC:
        raise InputError(f"{peer} does not use TLS, and this process does: check --tls on both sides, and --port")
    sock.sendall(proof(token, _exactly(sock, NONCE_BYTES)))
    if _exactly(sock, 1) != YES:
        raise InputError(
            f"{peer} refuses this process: it has another job's token; give all roles the same (UMIAK_TOKEN)"
        )


def _exactly(sock: socket.socket, count: int) -> bytes:
    """So many bytes and no more: what follows is TLS."""
    got = b""
    while len(got) < count:
        more = sock.recv(count - len(got))
        if not more:
            raise ConnectionResetError("the connection was closed")
        got += more
    return got
