"""The keys of a cluster: one authority, a certificate for each part of it, and kubeconfig files that use them."""

from __future__ import annotations

import base64
import ipaddress
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.kube.places import NODES, Place

SERVICE_ADDRESS = "10.96.0.1"
_PEM, _PLAIN = serialization.Encoding.PEM, serialization.NoEncryption()


class Authority:
    """Signs for one cluster; everything it makes lies in one directory."""

    def __init__(self, directory: Path, server: str) -> None:
        self.directory, self.server = directory, server
        directory.mkdir(parents=True, exist_ok=True)
        if not (directory / "ca.crt").exists():
            self._create()
        self._key = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), None)
        self._certificate = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())

    def _create(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject("umiak-test-cluster", None)
        usage = x509.KeyUsage(True, False, True, False, False, True, True, False, False)
        builder = _started(subject, subject, key.public_key(), timedelta(days=365))
        builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        self._write("ca", key, builder.sign(key, hashes.SHA256()))

    def issue(
        self,
        file: str,
        user: str,
        group: str | None = None,
        hosts: Iterable[str] = (),
        life: timedelta = timedelta(days=30),
    ) -> None:
        """FILE.crt and FILE.key for a user of the API, who may also serve under the names and addresses of `hosts`."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _started(_subject(user, group), self._certificate.subject, key.public_key(), life)
        uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(uses, critical=False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._certificate.public_key())  # type: ignore[arg-type]
        builder = builder.add_extension(authority, critical=False)
        names = [_alternative(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        self._write(file, key, builder.sign(self._key, hashes.SHA256()))  # type: ignore[arg-type]

    def kubeconfig(self, file: str) -> Path:
        """A kubeconfig with the certificate that was issued as `file`."""
        path = self.directory / f"{file}.kubeconfig"
        cluster = {"server": self.server, "certificate-authority-data": self._encoded("ca.crt")}
        user = {
            "client-certificate-data": self._encoded(f"{file}.crt"),
            "client-key-data": self._encoded(f"{file}.key"),
        }
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "umiak-test",
                    "clusters": [{"name": "umiak-test", "cluster": cluster}],
                    "users": [{"name": file, "user": user}],
                    "contexts": [{"name": "umiak-test", "context": {"cluster": "umiak-test", "user": file}}],
                },
                indent=1,
            )
        )
        path.chmod(0o600)
        return path

    def accounts(self) -> None:
        """The key pair with which the API server signs the tokens of service accounts."""
        key = rsa.generate_private_key(65537, 2048)
        public = key.public_key().public_bytes(_PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        (self.directory / "accounts.pub").write_bytes(public)
        self._write_key("accounts", key)

    def _write(self, file: str, key: PrivateKeyTypes, certificate: x509.Certificate) -> None:
        (self.directory / f"{file}.crt").write_bytes(certificate.public_bytes(_PEM))
        self._write_key(file, key)

    def _write_key(self, file: str, key: PrivateKeyTypes) -> None:
        path = self.directory / f"{file}.key"
        path.touch(0o600)
        path.write_bytes(key.private_bytes(_PEM, serialization.PrivateFormat.TraditionalOpenSSL, _PLAIN))

    def _encoded(self, file: str) -> str:
        return base64.b64encode((self.directory / file).read_bytes()).decode()


def cluster_keys(directory: Path, place: Place) -> Authority:
    """Everything that the parts of a cluster need to know each other; made once."""
    authority = Authority(directory, f"https://{place.control}:6443")
    if (directory / "accounts.pub").exists():
        return authority
    inside = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
    hosts = [*inside, "localhost", "127.0.0.1", place.control, SERVICE_ADDRESS]
    authority.issue("apiserver", "kube-apiserver", hosts=hosts)
    authority.issue("apiserver-to-kubelet", "kube-apiserver-to-kubelet", "system:masters")
    authority.issue("admin", "admin", "system:masters")
    authority.kubeconfig("admin")
    for part in ("kube-controller-manager", "kube-scheduler", "kube-proxy"):
        authority.issue(part, f"system:{part}")
        authority.kubeconfig(part)
    for node in NODES:
        authority.issue(node, f"system:node:{node}", "system:nodes", [node, place.address(node)])
        authority.kubeconfig(node)
    authority.accounts()
    return authority


def _subject(user: str, group: str | None) -> x509.Name:
    names = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group:
        names.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(names)


def _started(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: timedelta
) -> x509.CertificateBuilder:
    """A certificate to be completed; a negative life gives one that ended that long ago."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1) - abs(life))
        .not_valid_after(now + life)
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
