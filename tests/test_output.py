"""Pulling a job's output: the far end is the real program, as a process here instead of in a volume pod."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from umiak.contract.volume import File
from umiak.errors import InputError, RetryError
from umiak.jobs import output, volume_pod
from umiak.jobs.manifests import VOLUME
from umiak.kube.api import Api
from umiak.kube.kubeconfig import Access


class Here(volume_pod.VolumePod):
    """A volume pod whose volume is a directory of this machine. Its line can be cut or made noisy."""

    def __init__(self, volume: Path, cut_after: int | None = None, noise: bool = False) -> None:
        super().__init__(Api(Access("test", "http://127.0.0.1:1", "default", "nobody")), "default", "pod")
        object.__setattr__(self, "volume", volume)
        object.__setattr__(self, "cut_after", cut_after)
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "sent", [])

    def run(self, words: Sequence[str], line: str = "") -> Iterator[bytes]:
        here = [sys.executable, *words[1:-1], words[-1].replace(VOLUME, str(self.volume))]
        done = subprocess.run(here, input=line.encode() + b"\n", capture_output=True, check=False)
        if done.returncode:
            raise InputError(done.stderr.decode())
        data = done.stdout
        self.sent.append(len(data))
        if self.noise and b'"send"' in line.encode():
            data = data[:1000] + bytes([data[1000] ^ 1]) + data[1001:]
        end = len(data) if self.cut_after is None or '"send"' not in line else self.cut_after
        for at in range(0, end, 777):
            yield data[at : min(at + 777, end)]

    volume: Path
    cut_after: int | None
    noise: bool
    sent: list[int]


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """Two passes, a log, a checkpoint, and a file that is being written."""
    out = tmp_path / "volume/job/output"
    for name, size in {
        "pass-00000/w": 5000,
        "pass-00001/w": 70_000,
        "pass-00001/done": 0,
        "node_0/train.log": 3000,
        "checkpoints/00012/piece": 9000,
        ".pass-00002/w": 10,
    }.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(number % 251 for number in range(size)))
    return tmp_path / "volume"


def bring(pod: Here, target: Path, pass_id: int | None = None) -> int:
    files = output.chosen(output.listing(pod, "job/output"), pass_id)
    return output.pull(pod, "job/output", files, target, lambda done, total: None)


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_everything_but_checkpoints_and_unfinished_files_arrives_whole(volume: Path, tmp_path: Path) -> None:
    bring(Here(volume), tmp_path / "here")
    there = tree(volume / "job/output")
    wanted = {name: data for name, data in there.items() if not name.startswith((".", "checkpoints"))}
    assert tree(tmp_path / "here") == wanted


def test_one_pass_brings_that_snapshot_and_the_logs(volume: Path, tmp_path: Path) -> None:
    bring(Here(volume), tmp_path / "here", 1)
    assert list(tree(tmp_path / "here")) == ["node_0/train.log", "pass-00001/done", "pass-00001/w"]


def test_a_pass_that_is_not_there_is_an_error_that_names_those_that_are(volume: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no pass-00007 on the volume; there are pass-00000, pass-00001"):
        bring(Here(volume), tmp_path / "here", 7)


def test_a_second_pull_brings_only_what_changed(volume: Path, tmp_path: Path) -> None:
    bring(Here(volume), tmp_path / "here")
    assert bring(Here(volume), tmp_path / "here") == 0
    log = volume / "job/output/node_0/train.log"
    log.write_bytes(log.read_bytes() + b"more\n")
    assert bring(Here(volume), tmp_path / "here") == log.stat().st_size
    assert (tmp_path / "here/node_0/train.log").read_bytes() == log.read_bytes()


def test_a_pull_that_was_cut_off_goes_on_where_it_stopped(volume: Path, tmp_path: Path) -> None:
    with pytest.raises(RetryError, match="resumes where it stopped"):
        bring(Here(volume, cut_after=50_000), tmp_path / "here")
    assert not (tmp_path / "here/pass-00001/w").exists(), "a file under its own name must be whole"
    again = Here(volume)
    travelled = bring(again, tmp_path / "here")
    assert travelled < 40_000, "it began at the start"
    assert (tmp_path / "here/pass-00001/w").read_bytes() == (volume / "job/output/pass-00001/w").read_bytes()
    assert not list((tmp_path / "here").rglob("*.part"))


def test_a_file_damaged_on_the_way_is_not_kept(volume: Path, tmp_path: Path) -> None:
    with pytest.raises(RetryError, match="arrived damaged"):
        bring(Here(volume, noise=True), tmp_path / "here")
    assert not list((tmp_path / "here").rglob("*.part"))


def test_an_output_that_is_not_on_the_volume_is_named(volume: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no 'missing' on the volume"):
        output.listing(Here(volume), "missing")


def test_the_link_to_the_best_snapshot_comes_along_and_follows_it(volume: Path, tmp_path: Path) -> None:
    link, here = volume / "job/output/best", tmp_path / "here"
    link.symlink_to("pass-00001")
    bring(Here(volume), here)
    assert (here / "best").readlink() == Path("pass-00001") and (here / "best" / "w").is_file()
    link.unlink()
    link.symlink_to("pass-00000")
    assert bring(Here(volume), here) == 0, "no file has changed"
    assert (here / "best").readlink() == Path("pass-00000")
    bring(Here(volume), tmp_path / "one", pass_id=1)
    assert not (tmp_path / "one" / "best").is_symlink(), "a link to a snapshot that was not pulled would lead nowhere"
    (tmp_path / "own" / "best").mkdir(parents=True)
    bring(Here(volume), tmp_path / "own")
    assert (tmp_path / "own" / "best").is_dir() and not (tmp_path / "own" / "best").is_symlink()
    link.unlink()
    link.symlink_to("../../../etc")
    bring(Here(volume), tmp_path / "odd")
    assert not (tmp_path / "odd" / "best").is_symlink()


def test_files_outside_the_directory_are_refused(volume: Path, tmp_path: Path) -> None:
    (volume / "secret").write_text("x")
    file = File("../../secret", 1, 0.0)
    with pytest.raises(InputError, match="is not inside"):
        output.pull(Here(volume), "job/output", [file], tmp_path / "here", lambda done, total: None)


def test_a_volume_pod_reads_only_and_disappears_by_itself() -> None:
    made = volume_pod.manifest("umiak-volume-1", "efsvol", "umiak/runtime:1", writable=False)
    pod = made["spec"]["template"]["spec"]
    assert made["spec"]["ttlSecondsAfterFinished"] == 0
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "efsvol", "readOnly": True}
    assert pod["containers"][0]["volumeMounts"][0]["readOnly"]
    assert not pod["automountServiceAccountToken"]
