"""job.yaml: what a training job on Kubernetes should be. Typed and checked here, once; what the cluster thinks of it is
`umiak.jobs`'s work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, Literal

from umiak.contract.flags import BY_JOB_FILE, BY_POD
from umiak.errors import InputError
from umiak.spec import flags
from umiak.spec.yamlfile import Check, about

FILE = "job.yaml"
CLAIM = "efsvol"
MOST_WORKERS = 1000
# Host names of pods are NAME-INDEX, and Kubernetes lets none be longer.
LONGEST_HOST = 63
# Fields of a PodSpec that the workers find each other or their end by.
OURS = ("restartPolicy", "hostname", "subdomain", "terminationGracePeriodSeconds", "automountServiceAccountToken")

SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_BINARY = {unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), 1)}
_DECIMAL = {unit: 1000**power for power, unit in enumerate(("k", "M", "G", "T", "P"), 1)}


def _matching(pattern: str, advice: str) -> Check:
    compiled = re.compile(pattern)
    return lambda value: None if compiled.fullmatch(value) else f"{advice}, not {value!r}"


def seconds(duration: str) -> int:
    """`90s`, `10m`, `2h`, `7d` as seconds."""
    return int(duration[:-1]) * _UNITS[duration[-1]]


def quantity(text: str) -> Decimal:
    """Kubernetes' way of writing amounts: 500m is a half, 2Gi is 2 × 1024³."""
    number = text.rstrip("mkKMGTPi")
    unit = text[len(number) :]
    factor = Decimal("0.001") if unit == "m" else Decimal({**_BINARY, **_DECIMAL, "": 1}[unit])
    return Decimal(number) * factor


def _duration(least: int) -> Check:
    def check(value: str) -> str | None:
        if not re.fullmatch(r"\d{1,6}[smhd]", value):
            return f"must be a time like 90s, 10m, 2h or 7d, not {value!r}"
        return None if seconds(value) >= least else f"must be at least {least}s, not {value}"

    return check


def _workers(value: int) -> str | None:
    return None if 1 <= value <= MOST_WORKERS else f"must be 1 to {MOST_WORKERS}, not {value}"


def _passes(value: int) -> str | None:
    return None if value >= 1 else f"must be 1 or more, not {value}"


def _inside(what: str) -> Check:
    def check(value: str) -> str | None:
        path = PurePosixPath(value)
        if not value or path.is_absolute() or ".." in path.parts:
            return (
                f"must be a path inside {what}, like {'config.py' if 'config' in what else 'movielens'}, not {value!r}"
            )
        return None

    return check


S3 = "s3://"
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^*?\[\]]*)?")


def _data(value: str) -> str | None:
    if "://" not in value:
        return _inside("the volume")(value)
    return None if _BUCKET.fullmatch(value) else f"must be a bucket or a prefix, like s3://clicks/2026, not {value!r}"


def _arguments(value: dict[str, str]) -> str | None:
    for name, text in value.items():
        if not name.isidentifier():
            return f"must be names like dim, not {name!r}"
        if "," in text:
            return f"{name} must not contain a comma: {text!r}"
    return None


def _flags(values: tuple[str, ...]) -> str | None:
    for value in values:
        name = value.lstrip("-").partition("=")[0].replace("-", "_")
        name = {"passes": "num_passes", "out": "save_dir"}.get(name, name)
        if not value.startswith("--"):
            return f"must be flags of `umiak train` like --seed=2, not {value!r}"
        # The same flag beside what decides already could only contradict.
        if name in BY_POD + BY_JOB_FILE:
            return f"{value}: decided by the other fields of this file, or by the pod; leave it out"
    try:
        read = flags.parse("train", list(values))
    except InputError as error:
        return str(error)
    return "--seed=0 would give every worker a different seed; write --seed=1 or more" if read.seed == 0 else None


def _fragment(value: dict[str, Any]) -> str | None:
    for name in OURS:
        if name in value:
            return f"{name} is the job's own and cannot be set here" + (
                "; use grace" if name == "terminationGracePeriodSeconds" else ""
            )
    for name in ("containers", "initContainers", "volumes", "tolerations"):
        items = value.get(name, [])
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            return f"{name} must be a list, as in a PodSpec"
    for container in (each for name in ("containers", "initContainers") for each in value.get(name, [])):
        for variable in container.get("env") or []:
            if variable.get("name") in SECRETS and "value" in variable:
                return (
                    f"{variable['name']} would be readable in the job's manifest: let the role of a service_account read the "
                    "data, or take it from a Secret with valueFrom"
                )
    return None


_SIZE = _matching(r"[1-9]\d*(Mi|Gi|Ti|M|G|T)", "must be a size like 50Gi")


@dataclass(frozen=True)
class Volume:
    claim: str | None = field(
        default=None,
        metadata=about(
            f"An existing claim (PersistentVolumeClaim) that all workers can mount. null with no size: {CLAIM}.",
            _matching(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", "must be the name of a claim"),
        ),
    )
    size: str | None = field(
        default=None,
        metadata=about(
            "Instead of claim: make a new one of this size, like 50Gi; its class must allow ReadWriteMany.",
            _SIZE,
        ),
    )
    storage_class: str | None = field(
        default=None, metadata=about("StorageClass of the new claim. null: the cluster's default.")
    )


@dataclass(frozen=True)
class JobSpec:
    name: str = field(
        metadata=about(
            "Name of the job, of what it makes in the cluster, and of its directory on the volume.",
            _matching(
                r"[a-z]([-a-z0-9]*[a-z0-9])?",
                "must be of a-z, 0-9 and -, beginning with a letter and not ending with - (Kubernetes refuses others)",
            ),
        )
    )
    image: str = field(
        metadata=about(
            "The runtime image, from `umiak image push` or docker/Dockerfile, where the nodes can pull it.",
            _matching(r"[^\s]+", "must be the name of an image, like umiak/runtime:0.1.0"),
        )
    )
    requirements: str | None = field(
        default=None,
        metadata=about(
            "A requirements.txt, seen from this file: more packages for the workers, which `submit` adds to the image.",
            _inside("this directory"),
        ),
    )
    namespace: str | None = field(
        default=None,
        metadata=about(
            "Namespace. null: the one of the kubeconfig's context. -n on the command line wins.",
            _matching(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "must be the name of a namespace"),
        ),
    )
    config: str = field(
        default=".",
        metadata=about(
            "Directory with the config and what it imports, seen from this file. It is sent as it is, up to 900 kB packed."
        ),
    )
    entry: str = field(
        default="config.py",
        metadata=about("The config file in that directory.", _inside("the config directory")),
    )
    config_args: dict[str, str] = field(
        default_factory=dict,
        metadata=about("Arguments of the config, like {dim: 64}; see umiak.config_arg.", _arguments),
    )
    workers: int = field(
        default=3, metadata=about("Workers: one pod each, with a trainer and a parameter server.", _workers)
    )
    passes: int = field(default=10, metadata=about("Passes over the data.", _passes))
    mode: Literal["sync", "async"] = field(
        default="sync", metadata=about("sync: rounds of all workers; async: every message is applied at once.")
    )
    flags: tuple[str, ...] = field(
        default=(), metadata=about("More flags of `umiak train`, like [--seed=2, --checkpoint_minutes=5].", _flags)
    )
    cpu: str = field(
        default="1",
        metadata=about(
            "CPU that each worker asks for: 2, 1.5 or 500m. It may use more while nobody else wants it.",
            _matching(r"(\d+(\.\d{1,3})?|[1-9]\d*m)", "must be a number of CPUs like 2, 1.5 or 500m"),
        ),
    )
    memory: str = field(
        default="2Gi",
        metadata=about(
            "Memory of each worker, asked for and the most it gets: a worker that needs more is killed.",
            _matching(r"[1-9]\d*(Mi|Gi|Ti|M|G|T)", "must be an amount like 2Gi or 500Mi"),
        ),
    )
    tmp_size: str | None = field(
        default="10Gi",
        metadata=about(
            "The most a worker may have in /tmp, on its node's disk; a pod with more is evicted. null: no limit.", _SIZE
        ),
    )
    work_size: str | None = field(
        default=None,
        metadata=about(
            "The same for its working directory, where the config and its shard of the data are. null: no limit.", _SIZE
        ),
    )
    data: str | None = field(
        default=None,
        metadata=about(
            "Where data sets are as they are: a directory on the volume, or s3://BUCKET/PREFIX, which the workers read without a "
            "copy. The config finds them with umiak.data.path. null: none.",
            _data,
        ),
    )
    shards: str | None = field(
        default=None,
        metadata=about(
            "Directory on the volume with shards from `umiak data split`; each worker gets its own as ./data. null: none.",
            _inside("the volume"),
        ),
    )
    service_account: str | None = field(
        default=None,
        metadata=about(
            "Service account of the workers, whose role may read data in s3://. null: for s3:// the cluster's own, else none.",
            _matching(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", "must be the name of a service account"),
        ),
    )
    volume: Volume = field(default_factory=Volume, metadata=about("Where data, output and checkpoints are."))
    keep: str = field(
        default="7d",
        metadata=about(
            "How long the finished job stays visible in the cluster: 90s, 10m, 2h, 7d. Its output stays on the volume.",
            _duration(0),
        ),
    )
    grace: str = field(
        default="120s",
        metadata=about("Time for a last checkpoint when pods are told to stop.", _duration(10)),
    )
    pod: dict[str, Any] = field(
        default_factory=dict,
        metadata=about(
            "Merged last into the pods' PodSpec: nodeSelector, tolerations, imagePullSecrets, … Environment of the workers: "
            "{containers: [{name: worker, env: [{name: A, value: b}]}]}",
            _fragment,
        ),
    )

    def conflicts(self) -> Iterator[tuple[str, str]]:
        longest = LONGEST_HOST - len(f"-{self.workers - 1}")
        if len(self.name) > longest:
            yield (
                "name",
                f"has {len(self.name)} letters; with {self.workers} workers at most {longest} (pods are called NAME-INDEX)",
            )
        if self.volume.claim and self.volume.size:
            yield "volume.size", f"says to make a claim, but volume.claim names {self.volume.claim}; write one of them"
        if self.volume.storage_class and not self.volume.size:
            yield "volume.storage_class", "is for a new claim; write volume.size too, or leave it out"

    @property
    def claim(self) -> str:
        """The claim that the workers mount: the given one, or the one that is made."""
        return f"{self.name}-volume" if self.volume.size else self.volume.claim or CLAIM

    @property
    def reads_s3(self) -> bool:
        """Whether the workers read their data from S3, with the role of their service account."""
        return self.data is not None and self.data.startswith(S3)

    @property
    def output(self) -> str:
        """Where the output is, seen from the volume's root."""
        return f"{self.name}/output"
