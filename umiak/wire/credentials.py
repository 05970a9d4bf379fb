"""Who may join a job over the network: a certificate authority that signs one job's workers and nobody else's.

Any certificate of that authority is a member of the job, under whatever host name or address its pod happens to have, so
host names are not compared; the certificate names the worker. The authority's key is used once and never written:
whoever wants another worker writes a new set. A worker needs only its own directory: ca.pem, cert.pem, key.pem.
"""

from __future__ import annotations

import datetime
import errno
import hmac
import logging
import os
import shutil
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

from umiak.errors import InputError, RetryError
from umiak.extras import needed
from umiak.files import disk_error, temporary_name

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

DAYS = 365
WARNING = datetime.timedelta(days=30)
"""So long before their end, certificates are warned of."""
HEAD_START = datetime.timedelta(days=1)
"""Machines disagree about the time: a certificate made here must be valid there at once, also where it is earlier."""
_URI = "umiak:worker/"
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the curve P-256 (FIPS 186-4, D.1.2.3): private keys are the numbers from 1 to one less."""
log = logging.getLogger("umiak.wire")


def write(directory: Path, workers: int, overwrite: bool = False) -> list[Path]:
    """A new authority and the directories worker-0, worker-1, …, each ready for --tls or to be copied to a machine."""
    old = list(directory.glob("worker-*"))
    if old and not overwrite:
        raise InputError(
            f"{directory} already holds certificates: choose another directory or replace with --overwrite"
        )
    with needed("tls", "certificates need"):
        from cryptography.hazmat.primitives.serialization import Encoding

    temporary = temporary_name(directory / "new")
    try:
        ca_key, ca = _certificate(None, None, None)
        for worker in range(workers):
            key, certificate = _certificate(worker, ca_key, ca)
            target = temporary / f"worker-{worker}"
            target.mkdir(parents=True, mode=0o700)
            (target / "ca.pem").write_bytes(ca.public_bytes(Encoding.PEM))
            (target / "cert.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
            _write_key(target / "key.pem", key)
        for path in old:
            shutil.rmtree(path)
        names = [f"worker-{worker}" for worker in range(workers)]
        return [(temporary / name).rename(directory / name) for name in names]
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:
            raise InputError(f"somebody else has just written certificates to {directory}: use those") from None
        raise disk_error(error, directory, "write certificates to") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_from_token(directory: Path, token: str, worker: int) -> None:
    """Files for --tls that follow from a job's token: whoever has it makes a certificate that the others trust.

    For roles that share nothing but the token. The authority's key is a function of it, and is not written here either.
    """
    with needed("tls", "certificates need"):
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import Encoding

    # 512 bits, taken modulo the order of the curve: every key is as likely as any other.
    number = int.from_bytes(hmac.digest(token.encode(), b"umiak certificate authority", "sha512"))
    authority = ec.derive_private_key(number % (_ORDER - 1) + 1, ec.SECP256R1())
    ca_key, ca = _certificate(None, None, None, authority)
    key, certificate = _certificate(worker, ca_key, ca)
    (directory / "ca.pem").write_bytes(ca.public_bytes(Encoding.PEM))
    (directory / "cert.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    _write_key(directory / "key.pem", key)


def of_worker(directory: Path, worker: int) -> Path:
    """The directory of one worker: what `write` made for it, or `directory` itself where only its own files were put."""
    own = directory / f"worker-{worker}"
    return own if own.is_dir() else directory


def server_context(directory: Path) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_SERVER, directory)
    # A ticket lets a client come back without its certificate being looked at again; members connect once.
    context.num_tickets = 0
    return context


def client_context(directory: Path) -> ssl.SSLContext:
    return _context(ssl.PROTOCOL_TLS_CLIENT, directory)


def worker_of(sock: ssl.SSLSocket) -> int:
    """Which worker the peer's certificate was made for."""
    names: Any = (sock.getpeercert() or {}).get("subjectAltName", ())
    for _, name in names:
        if name.startswith(_URI) and name.removeprefix(_URI).isdigit():
            return int(name.removeprefix(_URI))
    raise InputError("the peer's certificate names no worker: write certificates with umiak certs")


def _context(side: int, directory: Path) -> ssl.SSLContext:
    ca, certificate, key = (directory / name for name in ("ca.pem", "cert.pem", "key.pem"))
    _check(ca, certificate, key)
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError:
        raise InputError(f"{key} is not the private key of {certificate}: copy both from the same worker-N") from None
    context.load_verify_locations(ca)
    return context


def _check(ca: Path, certificate: Path, key: Path) -> None:
    """Find here what a handshake would only report to the other side."""
    with needed("tls", "--tls needs"):
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature

    loaded = {}
    for path in (ca, certificate, key):
        try:
            data = path.read_bytes()
            if path is not key:
                loaded[path] = x509.load_pem_x509_certificate(data)
        except FileNotFoundError:
            raise InputError(f"{path} is missing: write certificates with umiak certs, or correct --tls") from None
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}; correct its permissions or --tls") from None
        except ValueError:
            raise InputError(f"{path} is not a certificate in PEM form: write new ones with umiak certs") from None
    now = datetime.datetime.now(datetime.UTC)
    for path, certificate_ in loaded.items():
        if now > certificate_.not_valid_after_utc:
            raise InputError(
                f"{path} expired on {_told(certificate_.not_valid_after_utc)} and this machine's clock says {_told(now)}: "
                "write new certificates with umiak certs, or correct the clock"
            )
        if now < certificate_.not_valid_before_utc:
            raise RetryError(
                f"{path} is valid from {_told(certificate_.not_valid_before_utc)} on, but this machine's clock says "
                f"{_told(now)}: correct the clock and try again"
            )
    end = min(each.not_valid_after_utc for each in loaded.values())
    if end - now < WARNING:
        log.warning(
            "%s expires on %s: replace the certificates before then; nobody can join without valid ones",
            certificate,
            _told(end),
        )
    try:
        loaded[certificate].verify_directly_issued_by(loaded[ca])
    except (ValueError, TypeError, InvalidSignature):
        raise InputError(f"{certificate} was not signed by {ca}: copy both from the same worker-N") from None


def _told(when: datetime.datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S} UTC"


def _certificate(
    worker: int | None,
    ca_key: EllipticCurvePrivateKey | None,
    ca: x509.Certificate | None,
    key: EllipticCurvePrivateKey | None = None,
) -> tuple[EllipticCurvePrivateKey, x509.Certificate]:
    """A key and its certificate: a worker's, or a new authority's when there is none to sign it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = key or ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    title = "umiak job" if worker is None else f"worker-{worker}"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])
    is_ca = worker is None
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(ca.subject if ca else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - HEAD_START)
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=0 if is_ca else None), critical=True)
        .add_extension(_usage(is_ca), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key((ca_key or key).public_key()), critical=False)
    )
    if worker is not None:
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        name = x509.UniformResourceIdentifier(f"{_URI}{worker}")
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName([name]), critical=False)
    return key, builder.sign(ca_key or key, hashes.SHA256())


def _usage(is_ca: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_ca,
        key_cert_sign=is_ca,
        crl_sign=is_ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: EllipticCurvePrivateKey) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
