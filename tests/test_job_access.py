"""Let in wherever kubectl is, and one line with the fix where not: kubeconfigs, credentials, TLS, proxies, refusals."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.recorded_kube import RecordedKube, recorded
from umiak import trusted
from umiak.cli.main import main
from umiak.errors import InputError, RetryError, UmiakError
from umiak.kube import kubeconfig
from umiak.kube.api import Api
from umiak.kube.objects import path
from umiak.kube.refusals import ApiError
from umiak.wire import credentials

JOBS = path("Job", "default")


@pytest.fixture
def kube() -> Iterator[RecordedKube]:
    with recorded() as kube:
        kube.namespace()
        yield kube


def api(file: Path, context: str | None = None) -> Api:
    return Api(kubeconfig.load(file, context, {}))


def program(path: Path, text: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def plugin(path: Path, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never", **more}


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory as `umiak cluster up` leaves it, or as a repository that somebody cloned may be."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    script = program(tmp_path / "plugin", "open('ran', 'w')")
    (tmp_path / "kubeconfig").write_text(
        "current-context: here\n"
        "contexts: [{name: here, context: {cluster: here, user: here}}]\n"
        "clusters: [{name: here, cluster: {server: 'https://here.invalid:6443'}}]\n"
        f"users: [{{name: here, user: {{exec: {json.dumps(plugin(script))}}}}}]\n"
    )
    return tmp_path


def test_the_cluster_of_this_directory_is_found_without_a_word_if_umiak_made_it_here(directory: Path) -> None:
    """`umiak cluster up` writes ./kubeconfig beside its cluster file; one without that file is anybody's."""
    with pytest.raises(InputError, match="no kubeconfig at"):
        kubeconfig.load(None, None, {})
    (directory / "cluster.yaml").write_text("name: paddle\n")
    trusted.record(Path("kubeconfig"))
    assert kubeconfig.load(None, None, {}).server == "https://here.invalid:6443"
    with pytest.raises(InputError, match="no kubeconfig at elsewhere"):
        kubeconfig.load(None, None, {"KUBECONFIG": "elsewhere"})
    note = next((directory / "data").rglob("written/*"))
    assert stat.S_IMODE(note.stat().st_mode) == 0o600 and stat.S_IMODE(note.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("why", ["never written here", "changed since", "copied elsewhere"])
def test_a_kubeconfig_that_a_repository_brought_runs_nothing_unless_it_is_named(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], why: str
) -> None:
    (directory / "cluster.yaml").write_text("name: paddle\n")
    if why == "changed since":
        trusted.record(Path("kubeconfig"))
        (directory / "kubeconfig").write_text((directory / "kubeconfig").read_text() + "# and more\n")
    if why == "copied elsewhere":
        trusted.record(Path("kubeconfig"))
        shutil.copytree(directory, directory / "clone", ignore=shutil.ignore_patterns("clone", "data"))
        monkeypatch.chdir(directory / "clone")
    assert main(["job", "ls"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "--kubeconfig kubeconfig" in told and "umiak cluster kubeconfig" in told
    assert not list(directory.rglob("ran"))
    assert kubeconfig.load(Path("kubeconfig"), None, {}).plugin is not None


def test_of_several_files_the_first_counts(tmp_path: Path) -> None:
    for name, server in (("a", "https://first"), ("b", "https://second")):
        (tmp_path / name).write_text(
            yaml.dump(
                {
                    "current-context": f"ctx-{name}",
                    "contexts": [{"name": f"ctx-{name}", "context": {"cluster": "same", "user": f"user-{name}"}}],
                    "clusters": [{"name": "same", "cluster": {"server": server}}],
                    "users": [{"name": f"user-{name}", "user": {"token": f"token-{name}"}}],
                }
            )
        )
    both = {"KUBECONFIG": os.pathsep.join(str(tmp_path / name) for name in ("missing", "a", "b"))}
    assert kubeconfig.load(None, None, both).context == "ctx-a"
    second = kubeconfig.load(None, "ctx-b", both)
    assert (second.server, second.given.token) == ("https://first", "token-b")


@pytest.mark.parametrize(
    ("content", "context", "wanted"),
    [
        (None, None, "no kubeconfig at"),
        ("[", None, "is not a kubeconfig"),
        ("just text", None, "is not a kubeconfig"),
        ("contexts: []", None, "has no current-context: choose one with --context"),
        ("current-context: a", "b", "has no context 'b'"),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: x}}]",
            None,
            "names the cluster 'x', which is not",
        ),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: x}}]\nclusters: [{name: x, cluster: {}}]",
            None,
            "has no server",
        ),
    ],
)
def test_a_kubeconfig_that_is_none(tmp_path: Path, content: str | None, context: str | None, wanted: str) -> None:
    file = tmp_path / "config"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=wanted) as error:
        kubeconfig.load(file, context, {})
    assert str(file) in str(error.value)


def test_a_token_from_a_file_is_read_again_when_it_was_renewed(kube: RecordedKube, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    kube.tokens = {"old"}
    client = api(kube.kubeconfig(tmp_path / "config", tokenFile="token"))
    assert client.items(JOBS) == []
    (tmp_path / "token").write_text("new\n")
    kube.tokens = {"new"}
    assert client.items(JOBS) == []


@pytest.mark.slow
def test_a_plugin_is_asked_once_and_again_when_its_token_is_refused(kube: RecordedKube, tmp_path: Path) -> None:
    script = program(
        tmp_path / "plugin",
        "import json, os, pathlib\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "assert info['kind'] == 'ExecCredential' and info['spec']['interactive'] is False\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "n = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(n))\n"
        "print(json.dumps({'status': {'token': os.environ['PREFIX'] + str(n)}}))\n",
    )
    given = plugin(script, env=[{"name": "PREFIX", "value": "t"}])
    client = api(kube.kubeconfig(tmp_path / "config", exec=given))
    kube.tokens = {"t1"}
    client.items(JOBS)
    client.items(JOBS)
    assert (tmp_path / "count").read_text() == "1"
    kube.tokens = {"t2"}
    client.items(JOBS)
    assert (tmp_path / "count").read_text() == "2"


@pytest.mark.slow
def test_a_token_about_to_end_is_not_used(kube: RecordedKube, tmp_path: Path) -> None:
    script = program(
        tmp_path / "plugin",
        "import json\nprint(json.dumps({'status': {'token': 'a', 'expirationTimestamp': '2020-01-01T00:00:00Z'}}))\n"
        f"open({str(tmp_path / 'asked')!r}, 'a').write('x')\n",
    )
    client = api(kube.kubeconfig(tmp_path / "config", exec=plugin(script)))
    client.items(JOBS)
    client.items(JOBS)
    assert (tmp_path / "asked").read_text() == "xx"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import sys; sys.exit('the SSO session has expired')", r"gave no credentials \(the SSO session has expired\)"),
        ("print('hello')", "printed no credentials"),
        ("print('{}')", "printed no credentials"),
        ("print('{\"status\": {}}')", "printed no credentials"),
    ],
)
def test_a_plugin_that_fails(kube: RecordedKube, tmp_path: Path, text: str, wanted: str) -> None:
    file = kube.kubeconfig(tmp_path / "config", exec=plugin(program(tmp_path / "plugin", text)))
    with pytest.raises(InputError, match=wanted) as error:
        api(file).items(JOBS)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_plugin_that_is_not_installed_says_how_to_get_it(kube: RecordedKube, tmp_path: Path) -> None:
    given = plugin(tmp_path / "none", installHint="get it\nfrom example.org")
    with pytest.raises(InputError, match=r"which is not there: get it from example.org"):
        api(kube.kubeconfig(tmp_path / "config", exec=given)).items(JOBS)


def test_a_client_certificate_opens_the_door_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = credentials.write(tmp_path / "certs", 2)
    with recorded(credentials.server_context(made[0])) as kube:
        kube.namespace()
        cluster = {
            "server": kube.url,
            "certificate-authority": str(made[1] / "ca.pem"),
            # Its certificate names a worker, not an address: what tls-server-name is for fails the same way.
            "insecure-skip-tls-verify": True,
        }
        user = {"client-certificate": "certs/worker-1/cert.pem", "client-key": "certs/worker-1/key.pem"}
        file = kube.kubeconfig(tmp_path / "config", **user)
        content = yaml.safe_load(file.read_text())
        content["clusters"][0]["cluster"] = cluster
        file.write_text(yaml.dump(content))
        (tmp_path / "scratch").mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
        assert api(file).items(JOBS) == []
        assert list((tmp_path / "scratch").iterdir()) == []

        content["users"][0]["user"] = {"token": "a"}
        file.write_text(yaml.dump(content))
        with pytest.raises(UmiakError, match=r"refuses the client certificate|no TLS connection"):
            api(file).items(JOBS)


def test_a_server_with_another_certificate_is_not_trusted(tmp_path: Path) -> None:
    mine, other = credentials.write(tmp_path / "a", 1)[0], credentials.write(tmp_path / "b", 1)[0]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(mine / "cert.pem", mine / "key.pem")
    with recorded(context) as kube:
        file = kube.kubeconfig(tmp_path / "config", token="secret")
        content = yaml.safe_load(file.read_text())
        content["clusters"][0]["cluster"]["certificate-authority"] = str(other / "ca.pem")
        file.write_text(yaml.dump(content))
        with pytest.raises(
            InputError, match="does not belong to the kubeconfig's cluster: is this the right context"
        ) as error:
            api(file).items(JOBS)
        assert "secret" not in str(error.value)
        assert kube.requests == []


def test_requests_go_through_the_proxy_of_the_kubeconfig(kube: RecordedKube, tmp_path: Path) -> None:
    """To an http server a proxy is asked with the whole address; this one is the recorded server itself."""
    file = kube.kubeconfig(tmp_path / "config")
    content = yaml.safe_load(file.read_text())
    content["clusters"][0]["cluster"] = {"server": "http://kubernetes.invalid:80", "proxy-url": kube.url}
    file.write_text(yaml.dump(content))
    client = api(file)
    assert client.items(JOBS) == []
    assert kube.seen[-1]["host"] == "kubernetes.invalid:80"
    content["clusters"][0]["cluster"]["proxy-url"] = "socks5://127.0.0.1:1"
    file.write_text(yaml.dump(content))
    with pytest.raises(InputError, match="must be http:// or https://"):
        api(file).items(JOBS)


def test_a_proxy_that_is_down_is_named(kube: RecordedKube, tmp_path: Path) -> None:
    file = kube.kubeconfig(tmp_path / "config")
    content = yaml.safe_load(file.read_text())
    content["clusters"][0]["cluster"]["proxy-url"] = "http://127.0.0.1:9"
    file.write_text(yaml.dump(content))
    with pytest.raises(RetryError, match="the proxy before"):
        api(file).items(JOBS)


@pytest.mark.parametrize("server", ["http://127.0.0.1:9", "https://127.0.0.1:9"])
def test_nobody_there_is_worth_another_try(tmp_path: Path, server: str) -> None:
    file = RecordedKube(url=server).kubeconfig(tmp_path / "config")
    with pytest.raises(RetryError, match=r"cannot reach .* Connection refused; check the network, the VPN"):
        api(file).items(JOBS)


def test_a_name_that_does_not_resolve(tmp_path: Path) -> None:
    file = RecordedKube(url="https://kubernetes.invalid").kubeconfig(tmp_path / "config")
    with pytest.raises(RetryError, match=r"cannot reach the Kubernetes API server https://kubernetes.invalid"):
        api(file).items(JOBS)


def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = RecordedKube(url=f"http://127.0.0.1:{silent.getsockname()[1]}").kubeconfig(tmp_path / "config")
        with pytest.raises(RetryError, match="does not answer"):
            api(file).text(JOBS, seconds=0.3)


def test_something_else_that_answers_is_not_taken_for_kubernetes(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            connection, _ = other.accept()
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        file = RecordedKube(url=f"http://127.0.0.1:{other.getsockname()[1]}").kubeconfig(tmp_path / "config")
        with pytest.raises(InputError, match="answers, but not like a Kubernetes API server"):
            api(file).items(JOBS)
        thread.join()


def test_expired_credentials(kube: RecordedKube, tmp_path: Path) -> None:
    kube.tokens = {"good"}
    with pytest.raises(ApiError, match="they have expired or are wrong; sign in again") as error:
        api(kube.kubeconfig(tmp_path / "config", token="bad")).items(JOBS)
    assert error.value.exit_code == 2
    assert len(kube.requests) == 1


def test_what_is_forbidden_is_said_in_words(kube: RecordedKube, tmp_path: Path) -> None:
    kube.denied = {("list", "jobs")}
    with pytest.raises(ApiError) as error:
        api(kube.kubeconfig(tmp_path / "config")).items(JOBS)
    assert str(error.value) == (
        "user 'jane' may not list jobs in namespace default: ask an administrator for a role that allows it "
        "(kubectl auth can-i list jobs -n default shows when it does)"
    )


@pytest.mark.slow
def test_a_busy_server_is_asked_again(kube: RecordedKube, tmp_path: Path) -> None:
    kube.busy = 3
    assert api(kube.kubeconfig(tmp_path / "config")).items(JOBS) == []
    assert len(kube.requests) == 4
    kube.busy = 10
    with pytest.raises(ApiError, match="cannot answer now") as error:
        api(kube.kubeconfig(tmp_path / "config")).items(JOBS)
    assert error.value.exit_code == 75


def test_long_lists_come_in_pages(kube: RecordedKube, tmp_path: Path) -> None:
    for number in range(1203):
        kube.put({"kind": "Pod", "metadata": {"name": f"p{number}", "namespace": "default"}})
    assert len(api(kube.kubeconfig(tmp_path / "config")).items(path("Pod", "default"))) == 1203
    assert len(kube.requests) == 3


def test_credentials_are_not_shown_by_a_traceback(tmp_path: Path, kube: RecordedKube) -> None:
    access = kubeconfig.load(kube.kubeconfig(tmp_path / "config", token="very-secret"), None, {})
    assert "very-secret" not in repr(access)
    assert json.dumps(access.given.token) == '"very-secret"'
