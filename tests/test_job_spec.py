"""job.yaml: what is accepted, and that every complaint names the line, the field and what to write."""

from __future__ import annotations

from typing import Any

import pytest

from umiak.errors import InputError
from umiak.spec import yamlfile
from umiak.spec.job import JobSpec, Volume, quantity, seconds

GOOD = "name: rec\nimage: umiak/runtime:1\n"


def complaint(text: str) -> str:
    with pytest.raises(InputError) as error:
        yamlfile.parse(text, "job.yaml", JobSpec)
    return str(error.value)


def test_two_lines_are_enough() -> None:
    spec = yamlfile.parse(GOOD, "job.yaml", JobSpec)
    assert (spec.workers, spec.passes, spec.mode, spec.claim, spec.output) == (3, 10, "sync", "efsvol", "rec/output")
    assert (seconds(spec.grace), seconds(spec.keep)) == (120, 7 * 86400)


def test_what_init_writes_reads_back_the_same() -> None:
    spec = JobSpec(
        "rec",
        "img",
        config_args={"dim": "64", "rate": "0.1"},
        flags=("--seed=2",),
        volume=Volume(size="5Gi", storage_class="efs"),
        pod={"nodeSelector": {"a": "b"}},
    )
    assert yamlfile.parse(yamlfile.dump(spec), "job.yaml", JobSpec) == spec


def test_config_args_are_taken_as_written() -> None:
    spec = yamlfile.parse(GOOD + "config_args: {dim: 064, rate: 1e-3, fast: 'true'}", "job.yaml", JobSpec)
    assert spec.config_args == {"dim": "064", "rate": "1e-3", "fast": "true"}


def test_the_fragment_is_plain_data() -> None:
    spec = yamlfile.parse(GOOD + "pod:\n  priority: 5\n  hostNetwork: false\n  tolerations: [{key: a}]", "x", JobSpec)
    assert spec.pod == {"priority": 5, "hostNetwork": False, "tolerations": [{"key": "a"}]}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("worker: 3", "job.yaml:3: worker: unknown field; did you mean workers?"),
        ("workers: three", "job.yaml:3: workers: must be a whole number, not 'three'"),
        ("workers: 0", "workers: must be 1 to 1000, not 0"),
        ("passes: 0", "passes: must be 1 or more"),
        ("mode: fast", "mode: must be one of sync, async, not 'fast'"),
        ("cpu: lots", "cpu: must be a number of CPUs like 2, 1.5 or 500m, not 'lots'"),
        ("memory: 2", "memory: must be an amount like 2Gi or 500Mi, not '2'"),
        ("grace: 120", "grace: must be a time like 90s, 10m, 2h or 7d, not '120'"),
        ("grace: 1s", "grace: must be at least 10s"),
        ("entry: ../config.py", "entry: must be a path inside the config directory"),
        ("data: /abs", "data: must be a path inside the volume"),
        ("config_args: [a]", "config_args: must hold names and values, not a list"),
        ("config_args: {a-b: 1}", "config_args: must be names like dim, not 'a-b'"),
        ("config_args: {a: 'x,y'}", "config_args: a must not contain a comma"),
        ("flags: [--workers=4]", "flags: --workers=4: decided by the other fields of this file"),
        ("flags: [--out=x]", "flags: --out=x: decided by"),
        ("flags: [--sead=4]", "flags: unknown flag --sead, did you mean --seed?"),
        ("flags: [--seed=0]", "flags: --seed=0 would give every worker a different seed"),
        ("flags: [seed]", "flags: must be flags of `umiak train` like --seed=2, not 'seed'"),
        ("namespace: My_Space", "namespace: must be the name of a namespace"),
        ("volume: {size: big}", "volume.size: must be a size like 50Gi, not 'big'"),
        ("volume: {claim: a, size: 1Gi}", "volume.size: says to make a claim, but volume.claim names a"),
        ("volume: {storage_class: a}", "volume.storage_class: is for a new claim; write volume.size too"),
        ("pod: nodeSelector", "pod: must hold names and values, not 'nodeSelector'"),
        ("pod: {hostname: a}", "pod: hostname is the job's own"),
        ("pod: {terminationGracePeriodSeconds: 3}", "cannot be set here; use grace"),
        ("pod: {containers: {name: worker}}", "pod: containers must be a list"),
    ],
)
def test_complaints_name_the_field_and_what_to_write(line: str, wanted: str) -> None:
    assert wanted in complaint(GOOD + line)


@pytest.mark.parametrize("name", ["Rec", "1rec", "rec-", "rec_1", "a.b"])
def test_names_that_kubernetes_refuses(name: str) -> None:
    assert "beginning with a letter and not ending with -" in complaint(f"name: {name}\nimage: a")


def test_a_name_too_long_for_host_names_says_how_long_it_may_be() -> None:
    text = "name: {}\nimage: a\nworkers: 11"
    assert yamlfile.parse(text.format("a" * 60), "job.yaml", JobSpec)
    said = complaint(text.format("a" * 61))
    assert "job.yaml:1: name: has 61 letters; with 11 workers at most 60" in said


def test_missing_fields_are_named_with_what_they_are() -> None:
    said = complaint("workers: 2")
    assert "name: missing; write “name: …” (Name of the job" in said
    assert "image: missing; write “image: …” (The runtime image" in said


@pytest.mark.parametrize(
    ("text", "value"), [("500m", 0.5), ("2", 2), ("1.5", 1.5), ("2Gi", 2**31), ("3M", 3e6), ("16Ki", 16384)]
)
def test_quantities(text: str, value: Any) -> None:
    assert float(quantity(text)) == value


@pytest.mark.parametrize("place", ["clicks", "sets/clicks", "s3://clicks", "s3://clicks/2026/", "s3://clicks/day=1"])
def test_data_may_be_on_the_volume_or_in_a_bucket(place: str) -> None:
    spec = yamlfile.parse(f"{GOOD}data: {place}\n", "job.yaml", JobSpec)
    assert spec.data == place and spec.reads_s3 == place.startswith("s3://")


@pytest.mark.parametrize("place", ["s3://", "s3://A/b", "s3://clicks/*.parquet", "/clicks", "gs://clicks"])
def test_data_that_are_in_neither_are_refused(place: str) -> None:
    assert "data: must be " in complaint(f"{GOOD}data: '{place}'")


def test_a_secret_is_kept_out_of_the_manifest() -> None:
    env = "pod: {containers: [{name: worker, env: [{name: AWS_SECRET_ACCESS_KEY, %s}]}]}\n"
    assert "AWS_SECRET_ACCESS_KEY would be readable in the job's manifest" in complaint(GOOD + env % "value: abc")
    secret = "valueFrom: {secretKeyRef: {name: a, key: b}}"
    assert yamlfile.parse(GOOD + env % secret, "job.yaml", JobSpec).pod
