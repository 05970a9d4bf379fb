"""What a submit will send. The same object is printed by --dry-run, compared by the tests, and acted on by submit.py."""

from __future__ import annotations

import hashlib
import json
import secrets
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from umiak.jobs import configdir, manifests
from umiak.jobs.manifests import Keys
from umiak.kube.objects import Object
from umiak.paths import LOCK
from umiak.spec.job import JobSpec
from umiak.spec.yamlfile import to_yaml

UID = "<uid of the Job>"


@dataclass(frozen=True)
class Plan:
    spec: JobSpec
    namespace: str
    config: bytes = field(repr=False)

    @property
    def claim(self) -> Object | None:
        made = manifests.claim(self.spec)
        return self._placed(made) if made else None

    @property
    def job(self) -> Object:
        made = self._placed(manifests.job(self.spec))
        made["metadata"]["annotations"][manifests.FINGERPRINT_ANNOTATION] = self.fingerprint
        return made

    def owned(self, uid: str, keys: Keys) -> list[Object]:
        return [self._placed(made) for made in manifests.owned(self.spec, self.config, uid, keys)]

    @property
    def fingerprint(self) -> str:
        """The same for the same job file and config directory: then a cancelled job can be resumed as it is."""
        everything = [manifests.job(self.spec), *self.owned(UID, manifests.placeholders(self.spec.workers))]
        return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()[:16]

    def everything(self, uid: str, keys: Keys) -> list[Object]:
        """All of it, in the order it is sent."""
        return [*([self.claim] if self.claim else []), self.job, *self.owned(uid, keys)]

    def text(self) -> str:
        """As YAML, without secrets. Sent as it stands; after it, the Job's suspend becomes false."""
        shown = self.everything(UID, manifests.placeholders(self.spec.workers))
        return "---\n".join(to_yaml(each) for each in shown)

    def _placed(self, made: Object) -> Object:
        return {**made, "metadata": {**made["metadata"], "namespace": self.namespace}}


def make(spec: JobSpec, directory: Path, namespace: str, lock: str | None = None) -> Plan:
    """The plan of a job file that stands in `directory`. `lock`: what its requirements became."""
    more = {LOCK: lock.encode()} if lock is not None else {}
    return Plan(spec, namespace, configdir.pack(directory / spec.config, spec.entry, more))


def new_keys(workers: int) -> Keys:
    from umiak.wire import credentials

    with tempfile.TemporaryDirectory() as name:
        made = credentials.write(Path(name), workers)
        return Keys(
            (made[0] / "ca.pem").read_text(),
            tuple((each / "cert.pem").read_text() for each in made),
            tuple((each / "key.pem").read_text() for each in made),
            secrets.token_hex(32),
        )
