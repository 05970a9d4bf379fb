"""A job file as Kubernetes objects: pure, plain dicts, compared by value in the tests. Who creates them is submit.py."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from umiak.contract import environment, ports
from umiak.kube import podspec
from umiak.kube.merge import merged
from umiak.kube.objects import Object
from umiak.spec.job import JobSpec, seconds

LABEL = "umiak.dev/job"
CONTAINER = "worker"
# How often one worker's pod may be replaced after a failure of its own, before the job is given up.
REPLACEMENTS = 10
# How long a pod stays bound to a node that has fallen silent.
LOST_NODE_SECONDS = 30
VOLUME = "/volume"
WORK = "/work"
CONFIG = PurePosixPath(environment.DEFAULT_CONFIG)

CLAIM_ANNOTATION = "umiak.dev/claim"
OUTPUT_ANNOTATION = "umiak.dev/output"
FINGERPRINT_ANNOTATION = "umiak.dev/fingerprint"
CANCELLED_ANNOTATION = "umiak.dev/cancelled"
RESUMED_ANNOTATION = "umiak.dev/resumed"
RENEWED_ANNOTATION = "umiak.dev/certificates-renewed"


@dataclass(frozen=True)
class Keys:
    """A job's secrets: its authority's certificate, a certificate and key per worker, and the token of the job."""

    ca: str
    certificates: tuple[str, ...]
    keys: tuple[str, ...]
    token: str


def placeholders(workers: int) -> Keys:
    """What stands for the secrets where they are not to be seen."""
    return Keys(
        "<certificate of the job's authority>",
        tuple(f"<certificate of worker {worker}>" for worker in range(workers)),
        tuple(f"<key of worker {worker}>" for worker in range(workers)),
        "<token>",
    )


def labels(name: str) -> dict[str, str]:
    return {LABEL: name, "app.kubernetes.io/managed-by": "umiak"}


def _object(version: str, kind: str, name: str, job: str, **content: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels(job)}, **content}


def claim(spec: JobSpec) -> Object | None:
    """The volume's claim, where the job file asks for a new one. It outlives the job: the output is on it."""
    if not spec.volume.size:
        return None
    wanted: Object = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": spec.volume.size}},
    }
    if spec.volume.storage_class:
        wanted["storageClassName"] = spec.volume.storage_class
    return _object("v1", "PersistentVolumeClaim", spec.claim, spec.name, spec=wanted)


def job(spec: JobSpec) -> Object:
    """Suspended, so that no pod starts before everything it needs is there."""
    made = _object("batch/v1", "Job", spec.name, spec.name)
    made["metadata"]["annotations"] = {CLAIM_ANNOTATION: spec.claim, OUTPUT_ANNOTATION: spec.output}
    made["spec"] = {
        "suspend": True,
        "completionMode": "Indexed",
        "completions": spec.workers,
        "parallelism": spec.workers,
        # A replacement starts only when its predecessor is truly gone: two pods of one worker would write the same files.
        "podReplacementPolicy": "Failed",
        "backoffLimitPerIndex": REPLACEMENTS,
        "maxFailedIndexes": 0,
        "podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                # 2 is the user's input and 1 a defect, both after the workers' own restarts: another pod fails alike.
                {
                    "action": "FailJob",
                    "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": [1, 2]},
                },
            ]
        },
        "ttlSecondsAfterFinished": seconds(spec.keep),
        "template": {"metadata": {"labels": labels(spec.name)}, "spec": merged(_pod(spec), spec.pod)},
    }
    return made


def _pod(spec: JobSpec) -> Object:
    return podspec.pod(
        _container(spec),
        [
            podspec.claimed("volume", spec.claim),
            {"name": "config", "configMap": {"name": f"{spec.name}-config"}},
            {"name": "credentials", "secret": {"secretName": f"{spec.name}-credentials", "defaultMode": 0o440}},
            podspec.scratch("tmp", spec.tmp_size),
            podspec.scratch("work", spec.work_size),
        ],
        owns_volumes=True,
        subdomain=spec.name,
        account=spec.service_account,
        grace_seconds=seconds(spec.grace),
        tolerations=[
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": LOST_NODE_SECONDS,
            }
            for state in ("not-ready", "unreachable")
        ],
        spread=[
            {
                "topologyKey": "kubernetes.io/hostname",
                "maxSkew": 1,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {LABEL: spec.name}},
            }
        ],
    )


def _container(spec: JobSpec) -> Object:
    # Of all certificates a pod sees its own alone.
    certificates = {"ca": "ca.pem", **{file: f"{file}-$({environment.INDEX}).pem" for file in ("cert", "key")}}
    return podspec.container(
        CONTAINER,
        spec.image,
        ["umiak", "pod"],
        [
            podspec.mount("volume", VOLUME),
            podspec.mount("config", str(CONFIG.parent), read_only=True),
            *(
                {
                    "name": "credentials",
                    "mountPath": f"{environment.DEFAULT_CREDENTIALS}/{file}.pem",
                    "subPathExpr": source,
                    "readOnly": True,
                }
                for file, source in certificates.items()
            ),
            podspec.mount("tmp", podspec.TMP),
            podspec.mount("work", WORK),
        ],
        cpu=spec.cpu,
        memory=spec.memory,
        most_memory=spec.memory,
        working_dir=WORK,
        env=_environment(spec),
        ports=[
            {"name": "coordinator", "containerPort": ports.COORDINATOR},
            {"name": "service", "containerPort": ports.FIRST},
        ],
        termination_log=environment.DEFAULT_TERMINATION_LOG,
        ends_with_log=True,
    )


def _environment(spec: JobSpec) -> list[Object]:
    arguments = [f"--passes={spec.passes}", f"--mode={spec.mode}"]
    if spec.config_args:
        arguments.append("--config_args=" + ",".join(f"{key}={value}" for key, value in spec.config_args.items()))
    told = environment.Environment(
        job=spec.name,
        workers=spec.workers,
        service=spec.name,
        out=f"{VOLUME}/{spec.output}",
        entry=spec.entry,
        arguments=(*arguments, *spec.flags),
        grace_seconds=seconds(spec.grace),
        home=podspec.TMP,
        data=spec.data if spec.reads_s3 else f"{VOLUME}/{spec.data}" if spec.data else None,
        shards=f"{VOLUME}/{spec.shards}" if spec.shards else None,
    )
    uid = {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}
    return [
        *({"name": name, "value": value} for name, value in told.to_env().items()),
        {"name": environment.JOB_UID, "valueFrom": {"fieldRef": uid}},
        {
            "name": environment.TOKEN,
            "valueFrom": {"secretKeyRef": {"name": f"{spec.name}-credentials", "key": "token"}},
        },
    ]


def owned(spec: JobSpec, config: bytes, uid: str, keys: Keys) -> list[Object]:
    """What belongs to the Job and goes when it goes."""
    made = [_service(spec), _policy(spec), _config(spec, config), _secret(spec, keys)]
    for each in made:
        each["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": spec.name, "uid": uid}]
    return made


def _service(spec: JobSpec) -> Object:
    """Headless: it only gives each worker a name. Published before ready, because workers wait for each other to be so."""
    return _object(
        "v1",
        "Service",
        spec.name,
        spec.name,
        spec={
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {LABEL: spec.name},
            "ports": [
                {"name": "coordinator", "port": ports.COORDINATOR},
                {"name": "service", "port": ports.FIRST},
            ],
        },
    )


def _policy(spec: JobSpec) -> Object:
    mine = {"matchLabels": {LABEL: spec.name}}
    return _object(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        spec.name,
        spec.name,
        spec={"podSelector": mine, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": mine}]}]},
    )


def _config(spec: JobSpec, config: bytes) -> Object:
    content = {CONFIG.name: base64.b64encode(config).decode()}
    return _object("v1", "ConfigMap", f"{spec.name}-config", spec.name, immutable=True, binaryData=content)


def _secret(spec: JobSpec, keys: Keys) -> Object:
    content = {"ca.pem": keys.ca, "token": keys.token}
    for worker, (certificate, key) in enumerate(zip(keys.certificates, keys.keys, strict=True)):
        content |= {f"cert-{worker}.pem": certificate, f"key-{worker}.pem": key}
    return _object(
        "v1", "Secret", f"{spec.name}-credentials", spec.name, type="Opaque", immutable=True, stringData=content
    )
