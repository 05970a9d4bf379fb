"""First failure first: recorded objects of every kind of trouble, and the words a user reads about it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests import kube_objects as make
from umiak.cli import job_text as display
from umiak.contract import reasons
from umiak.contract.lines import Told
from umiak.jobs import capacity, pods, status
from umiak.jobs.diagnosis import Facts, Problem, problems
from umiak.kube.nodes import node as read_node
from umiak.messages.events import Checkpoint, Phase, Round, Snapshot
from umiak.messages.failure import Failure
from umiak.pod.report import PodEnd, termination

NOW = datetime(2026, 11, 16, 9, 20, tzinfo=UTC)


def found(*items: dict[str, Any], **more: Any) -> list[Problem]:
    return problems(Facts([pods.pod(item) for item in items], **more))


def assembled(job: dict[str, Any], *items: dict[str, Any], **more: Any) -> status.Status:
    return status.assemble(job, [pods.pod(item) for item in items], **more)


def text(seen: status.Status) -> str:
    return "\n".join(display.status(seen, NOW))


def test_pods_that_are_well_have_no_problem() -> None:
    done = make.pod(2, phase="Succeeded", state={"terminated": {"exitCode": 0, "reason": "Completed"}})
    assert found(make.running(0), make.running(1), done) == []


def test_out_of_memory_names_the_limit_and_the_field() -> None:
    (problem,) = found(make.failed(1, 137, reason="OOMKilled"), memory="2Gi")
    assert problem.what == "out of memory: the kernel killed it at its limit of 2Gi"
    assert "raise memory in job.yaml" in problem.fix
    assert (problem.worker, problem.node, problem.code) == (1, "n2", 137)


def test_a_process_killed_for_memory_inside_a_pod_that_lives_on_to_say_so() -> None:
    cause = "the trainer of worker 1 was killed because it needed more memory than the container may use"
    (problem,) = found(make.failed(1, 1, message=make.report(cause, 1)))
    assert (problem.what, problem.fix[:28]) == (cause, "raise memory in job.yaml, or")


def test_advice_follows_from_the_reason_that_the_pod_gave_and_not_from_its_words() -> None:
    failure = Failure(1, "trainer", -9, "gone", 7, kind=reasons.OUT_OF_MEMORY)
    own, other = (termination(PodEnd(1, "in other words", failure), worker).encode().decode() for worker in (1, 0))
    cause, consequence = found(make.failed(0, 1, message=other), make.failed(1, 1, message=own))
    assert (cause.worker, cause.reason, cause.fix[:24]) == (1, "OutOfMemory", "raise memory in job.yaml")
    assert (consequence.because_of, consequence.fix) == (1, "")
    (told,) = (each for each in found(make.failed(0, 1, message=other)) if each.because_of is None)
    assert (told.worker, told.fix) == (1, cause.fix), "also where only the other pod is left to tell"


def test_a_config_error_comes_with_its_last_lines() -> None:
    log = "\n".join(f"line {number}" for number in range(30))
    message = make.report("the config does not load: config.py:3: NameError: x", 2, log=log)
    (problem,) = found(make.failed(0, 2, message=message))
    assert problem.what == "the config does not load: config.py:3: NameError: x"
    assert "umiak job delete" in problem.fix
    assert problem.log.splitlines() == [f"line {number}" for number in range(18, 30)]


def test_a_pod_that_could_not_say_why_shows_the_end_of_its_log() -> None:
    (problem,) = found(make.failed(0, 139, message="Fatal Python error: Segmentation fault"))
    assert problem.what == "crashed (SIGSEGV) without giving a cause"
    assert problem.log == "Fatal Python error: Segmentation fault"


def test_eviction_says_what_the_node_was_low_on() -> None:
    message = "The node was low on resource: ephemeral-storage. Threshold quantity: 1, available: 0."
    (problem,) = found(make.pod(1, phase="Failed", reason="Evicted", message=message))
    assert problem.what == "evicted: node n2 was low on ephemeral-storage"


@pytest.mark.parametrize(
    ("reason", "wanted"),
    [
        ("PreemptionByScheduler", "a pod of higher priority took its place"),
        ("DeletionByTaintManager", "its node was lost or drained"),
        ("EvictionByEvictionAPI", "it was evicted, as when a node is drained"),
        ("SomethingNew", "a new word"),
    ],
)
def test_disruptions_in_words(reason: str, wanted: str) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "a new word"}
    (problem,) = found(make.pod(0, phase="Failed", conditions=[condition]))
    assert problem.what == f"stopped from outside: {wanted}"


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ('failed to resolve reference "docker.io/a:1": docker.io/a:1: not found', "there is no such image"),
        ("pull access denied, repository does not exist or may require authorization", "there is no such image"),
        ("unexpected status: 401 Unauthorized", "the registry refuses the nodes"),
        ("dial tcp: lookup registry.invalid: no such host", "the registry's name is unknown to the nodes"),
        ("something else", "something else"),
    ],
)
def test_images_that_cannot_be_pulled(message: str, wanted: str) -> None:
    (problem,) = found(make.waiting(0, "ErrImagePull", message))
    assert problem.what == f"the image umiak/runtime:1 cannot be pulled: {wanted}"
    assert problem.waiting


def test_a_backing_off_pull_is_explained_by_its_event() -> None:
    pod = make.waiting(0, "ImagePullBackOff", "Back-off pulling image")
    events = [make.event(pod, "Failed", "Failed to pull image: not found", "09:01:00")]
    events.append(make.event(pod, "Failed", "Error: ImagePullBackOff", "09:02:00"))
    (problem,) = found(pod, events=events)
    assert problem.what.endswith("there is no such image")


def test_no_room_says_what_is_missing_on_which_node() -> None:
    nodes = [
        read_node(make.node("n1")),
        read_node(make.node("n2", memory="1Gi")),
        read_node(make.node("n3", ready="False")),
    ]
    template = make.job()["spec"]["template"]["spec"]
    busy = make.running(0, node="n1")
    busy["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1500m", "memory": "1Gi"}}
    rooms = capacity.rooms(nodes, [busy], template)
    pod = make.unscheduled(1, "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. preemption: 0/3 …")
    (problem,) = found(pod, nodes=nodes, rooms=rooms, template=template)
    assert problem.what == "no node takes it: n1: 0.5 of 2 CPU free; n2: 1Gi of 1Gi memory free; n3: not ready"


def test_no_room_where_nodes_may_not_be_listed_repeats_the_scheduler() -> None:
    (problem,) = found(make.unscheduled(1, "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes"))
    assert problem.what == "no node takes it: 0/3 nodes are available: 3 Insufficient cpu."


def test_a_missing_claim_and_one_that_is_not_bound() -> None:
    (problem,) = found(make.unscheduled(0, 'persistentvolumeclaim "efsvol" not found'))
    assert problem.what == "the claim efsvol is not there"
    claim = {"metadata": {"name": "rec-volume", "uid": "c"}}
    said = make.event(claim, "ProvisioningFailed", 'storageclass "x" not found', kind="PersistentVolumeClaim")
    (problem,) = found(make.unscheduled(0, "pod has unbound immediate PersistentVolumeClaims"), events=[said])
    assert problem.what == 'its volume is not bound: rec-volume: storageclass "x" not found'


def test_a_volume_that_cannot_be_mounted() -> None:
    pod = make.waiting(0, "ContainerCreating")
    (problem,) = found(pod, events=[make.event(pod, "FailedMount", "mount.nfs: Connection timed out")])
    assert problem.what == "a volume cannot be mounted on node n1: mount.nfs: Connection timed out"


@pytest.mark.parametrize("item", [make.waiting(0, "CreateContainerConfigError", 'secret "x" not found')])
def test_a_container_that_cannot_be_made(item: dict[str, Any]) -> None:
    (problem,) = found(item)
    assert problem.what == 'the container cannot start: secret "x" not found'


def test_an_image_without_our_program() -> None:
    message = 'exec: "umiak": executable file not found in $PATH'
    (problem,) = found(make.failed(0, 128, message=message, reason="StartError"))
    assert "executable file not found" in problem.what
    assert "is image the runtime image" in problem.fix


def test_a_silent_node_comes_with_the_command_that_frees_the_worker() -> None:
    nodes = [read_node(make.node("n2", ready="Unknown"))]
    (problem,) = found(make.running(1, deleted="2026-11-16T09:04:00Z"), nodes=nodes)
    assert problem.what.startswith("node n2 is silent since 09:03:00 UTC")
    assert problem.fix.endswith("kubectl delete node n2")


def test_a_node_that_is_gone() -> None:
    (problem,) = found(make.running(1), nodes=[read_node(make.node("n1"))])
    assert problem.what == "node n2 is gone"


def test_a_quota_that_lets_no_pod_be_made() -> None:
    job = make.job()
    said = make.event(job, "FailedCreate", 'pods "rec-1-" is forbidden: exceeded quota: team', kind="Job")
    seen = assembled(job, make.running(0), events=[said])
    assert [each.worker for each in seen.problems] == [1, 2]
    assert "first failure: worker 1 and 1 more (2) wait" in text(seen)
    assert 'Kubernetes refuses to make its pod: pods "rec-1-" is forbidden: exceeded quota: team' in text(seen)


def test_who_failed_because_of_another_comes_after_it_whatever_the_clock_says() -> None:
    consequence = make.failed(0, 75, "09:04:00", make.report("worker 2 is lost", because_of=2, time="09:04:00"))
    cause = make.failed(2, 1, "09:05:00", make.report("the trainer died: RuntimeError: boom", 1, time="09:05:00"))
    first, second = found(consequence, cause)
    assert (first.worker, second.worker, second.because_of) == (2, 0, 2)


def told_by(worker: int) -> dict[str, Any]:
    """A pod that failed because of worker 2, and has its words."""
    message = make.report("ValueError: no such column", 2, because_of=2, log="Traceback\nValueError")
    return make.failed(worker, 2, message=message)


@pytest.mark.parametrize(
    ("own", "named"), [([], "pod gone"), ([make.running(2, deleted=make.START)], "pod rec-2-abcde on node n3")]
)
def test_a_pod_that_was_removed_before_it_could_say_why_is_blamed_by_the_others(
    own: list[dict[str, Any]], named: str
) -> None:
    """As Kubernetes does with pods that run when their Job fails, by the exit code of another."""
    seen = assembled(make.job(conditions=make.ended("Failed")), told_by(0), told_by(1), *own)
    assert [(each.worker, each.because_of) for each in seen.problems] == [(2, None), (0, 2), (1, 2)]
    assert [each.log for each in seen.problems] == ["Traceback\nValueError", "", ""]
    shown = text(seen)
    assert f"first failure: worker 2 ({named}) at 09:04:59 UTC, exit code 2\n  ValueError: no such column" in shown
    assert "  → correct this" in shown and "    Traceback\n" in shown
    assert "because of it: worker 0 (exit code 2), worker 1 (exit code 2)" in shown


def test_a_worker_whose_pod_says_why_it_failed_is_not_blamed_twice() -> None:
    first, *others = found(told_by(0), make.failed(2, 137, reason="OOMKilled"))
    assert first.what.startswith("out of memory")
    assert [other.because_of for other in others] == [2]


def test_status_of_a_failed_job_tells_the_story_in_order() -> None:
    items = [
        make.failed(0, 75, message=make.report("worker 2 ended", because_of=2)),
        make.failed(1, 75, message=make.report("worker 2 ended", because_of=2)),
        make.failed(
            2, 2, message=make.report("config.py:9: ValueError: no such column", 2, log="Traceback\nValueError")
        ),
    ]
    seen = assembled(make.job(conditions=make.ended("Failed", "Container worker failed with exit code 2")), *items)
    assert (seen.state, seen.exit_code) == ("failed", 2)
    shown = text(seen)
    order = [
        "first failure: worker 2 (pod rec-2-abcde on node n3) at 09:04:59 UTC, exit code 2",
        "  config.py:9: ValueError: no such column",
        "  → correct this",
        "    Traceback",
        "because of it: worker 0 (exit code 75), worker 1 (exit code 75)",
    ]
    assert [shown.index(part) for part in order] == sorted(shown.index(part) for part in order)


def test_a_failure_that_was_replaced_is_history() -> None:
    old = make.failed(1, 137, reason="OOMKilled", name="rec-1-old")
    new = make.running(1, name="rec-1-new", created="2026-11-16T09:06:00Z")
    seen = assembled(make.job(), make.running(0), old, new, make.running(2))
    assert seen.state == "running"
    assert "earlier, replaced since: worker 1 (pod rec-1-old" in text(seen)
    assert [(each.phase, each.failures) for each in seen.workers] == [("running", 0), ("running", 1), ("running", 0)]


def test_workers_with_the_same_trouble_share_one_line() -> None:
    items = [make.waiting(worker, "ErrImagePull", "not found") for worker in range(3)]
    shown = text(assembled(make.job(), *items))
    assert "first failure: worker 0 and 2 more (1, 2) wait" in shown
    assert shown.count("cannot be pulled") == 1


def test_a_job_whose_pods_are_gone_still_says_why_it_failed() -> None:
    seen = assembled(make.job(conditions=make.ended("Failed", "Job was active longer than specified deadline")))
    assert (seen.state, seen.exit_code) == ("failed", 1)
    assert "Job was active longer" in "\n".join(display.end(seen))


@pytest.mark.parametrize(
    ("job", "items", "wanted"),
    [
        (make.job(suspend=True), [], "submitting"),
        (make.job(), [make.running(0)], "waiting"),
        (make.job(), [make.running(0), make.running(1), make.running(2)], "running"),
        (make.job(suspend=True, annotations={"umiak.dev/cancelled": "x"}), [make.running(0)], "stopping"),
        (make.job(suspend=True, annotations={"umiak.dev/cancelled": "x"}), [], "cancelled"),
        (make.job(conditions=make.ended("Complete")), [], "done"),
        (make.job(conditions=make.ended("FailureTarget")), [], "failed"),
    ],
)
def test_states(job: dict[str, Any], items: list[dict[str, Any]], wanted: str) -> None:
    assert assembled(job, *items).state == wanted


def test_pods_that_stopped_on_request_have_not_failed() -> None:
    job = make.job(suspend=True, annotations={"umiak.dev/cancelled": "x"})
    seen = assembled(job, make.failed(0, 75, message=make.report("stopped on request")))
    assert (seen.state, seen.problems, seen.exit_code) == ("cancelled", (), 75)


def test_events_in_a_log_are_read_and_broken_ones_are_not() -> None:
    whole = '@umiak {"event": "snapshot", "path": "pass-00001", "time": "2026-11-16T09:10:00.000Z", "new": 1}'
    partial = '@umiak {"event": "round", "pass": 1}'
    lines = [whole, partial, "I1116 a line", "@umiak {broken", "@umiak []", '@umiak {"no": 1}']
    assert list(status.events_in(lines)) == [Told(Snapshot("pass-00001"), "2026-11-16T09:10:00.000Z")]


def test_status_shows_pass_and_rate() -> None:
    events = [Phase(1, "testing"), Checkpoint("x", 100), Round(4, 10, 210, cost=0.5, samples_per_s=9000.0)]
    told = [Told(event, "") for event in events]
    shown = text(assembled(make.job(), make.running(0), make.running(1), make.running(2), told=told))
    assert "pass 4  batch 10  9,000 samples/s  cost 0.5000  checkpoint of round 100" in shown
    assert "training  4     3,000" in shown
    assert "testing" in shown
