"""Servers that want a certificate of the client: `client_cert` of a target, through the command."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from rejoinder.errors import UsageError
from rejoinder.testing import FakeServer
from tests.kit import Project, Raw, codes

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
PASSWORD = "open-0123456789-sesame"


@pytest.fixture(scope="module")
def client(authority: trustme.CA) -> trustme.LeafCert:
    return authority.issue_cert("client@models.test")


@pytest.fixture(autouse=True)
def trusted(project: Project, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    authority.cert_pem.write_to_path(str(project.folder / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(project.folder / "authority.pem"))


def demanding(authority: trustme.CA, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """Of a server that talks only to clients whose certificates the authority has issued."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = version
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def write_pem(project: Project, name: str, client: trustme.LeafCert) -> Path:
    return project.write(name, client.private_key_and_cert_chain_pem.bytes())


def suite_of(server: FakeServer, client_cert: Any = None, **settings: Any) -> Raw:
    target = {"name": "model", "provider": "openai", "model": "m", "base_url": server.openai_url, **settings}
    if client_cert is not None:
        target["client_cert"] = client_cert
    return {"targets": [target], "target": "model", "evals": [{"prompt": "Hello?", "checks": [{"match": "*OK*"}]}]}


def run(project: Project, suite: Raw, code: int | None = 0, name: str = "evals.yaml") -> Raw:
    project.write(name, suite)
    [result] = project.run_json("run", name, code=code)["results"]
    return result


# A certificate is shown


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_one_file(version: ssl.TLSVersion, project: Project, authority: trustme.CA, client: trustme.LeafCert) -> None:
    write_pem(project, "client.pem", client)
    with FakeServer(tls=demanding(authority, version)) as server:
        assert run(project, suite_of(server, "client.pem"))["status"] == "passed"
        assert len(server.requests) == 1


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
def test_a_key_in_another_file(
    encrypted: bool,
    project: Project,
    authority: trustme.CA,
    client: trustme.LeafCert,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chain = b"".join(pem.bytes() for pem in client.cert_chain_pems)
    project.write("certs/client.crt", chain)
    files = {"cert": "certs/client.crt", "key": "certs/client.key"}
    key = client.private_key_pem.bytes()
    if encrypted:
        monkeypatch.setenv("CLIENT_PASSWORD", PASSWORD)
        files["password"] = "${{ CLIENT_PASSWORD }}"
        key = serialization.load_pem_private_key(key, None).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(PASSWORD.encode()),
        )
    project.write("certs/client.key", key)
    with FakeServer(tls=demanding(authority)) as server:
        assert run(project, suite_of(server, files))["status"] == "passed"
    stored = [path for path in (project.folder / ".rejoinder").rglob("*") if path.is_file()]
    assert stored and not any(PASSWORD.encode() in path.read_bytes() for path in stored)


@pytest.mark.parametrize("written", ["client.pem", "../client.pem", "ABSOLUTE", "~/client.pem", "${{ CLIENT_CERT }}"])
@pytest.mark.parametrize("setting", ["client_cert", "clientCert"])
def test_where_the_file_is_looked_for(
    written: str,
    setting: str,
    project: Project,
    authority: trustme.CA,
    client: trustme.LeafCert,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside the suite, in the project's root, in the home folder, or where the path says."""
    path = write_pem(project, "client.pem", client)
    monkeypatch.setenv("CLIENT_CERT", "client.pem")
    monkeypatch.setenv("HOME", str(project.folder))
    with FakeServer(tls=demanding(authority)) as server:
        suite = suite_of(server, **{setting: written.replace("ABSOLUTE", str(path))})
        assert run(project, suite, name="suites/evals.yaml")["status"] == "passed"


def test_each_target_shows_its_own(project: Project, authority: trustme.CA, client: trustme.LeafCert) -> None:
    write_pem(project, "client.pem", client)
    with FakeServer(tls=demanding(authority)) as server:
        suite = suite_of(server, "client.pem")
        suite["targets"].append({**suite_of(server)["targets"][0], "name": "stranger"})
        project.write("evals.yaml", suite)
        shown = project.run("run", "evals.yaml", "-m", "model,stranger", "--format", "json", code=3)
        assert len(server.requests) == 1
    found = {result["target"]: result["status"] for result in json.loads(shown)["results"]}
    assert found == {"model": "passed", "stranger": "error"}


# The server is not content


@contextlib.contextmanager
def blocking_server(context: ssl.SSLContext) -> Iterator[str]:
    """A server that says why it ends a handshake, which asyncio's do not; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=shake_hands, args=(listener, context), daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def shake_hands(listener: socket.socket, context: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as secure:
                secure.recv(1)


def refused(project: Project, place: str, client_cert: str | None = None) -> str:
    """The message of a run whose server refuses it at once."""
    target = {"name": "model", "provider": "openai", "model": "m", "base_url": f"https://{place}/v1"}
    if client_cert is not None:
        target["client_cert"] = client_cert
    error = run(project, {"targets": [target], "evals": [{"prompt": "Hello?", "checks": [{"match": "*"}]}]}, 3)["error"]
    assert error["type"] == "tls"
    assert "tried" not in error["message"]  # once is enough
    return error["message"]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_a_server_that_wants_one_and_gets_none(
    version: ssl.TLSVersion, project: Project, authority: trustme.CA
) -> None:
    with blocking_server(demanding(authority, version)) as place:
        message = refused(project, place)
    assert message.startswith(f"no secure connection to {place}: it ")
    assert "requires a client certificate" in message
    assert message.endswith("name one as `client_cert` of the target")


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_a_server_that_does_not_take_it(version: ssl.TLSVersion, project: Project, authority: trustme.CA) -> None:
    write_pem(project, "client.pem", trustme.CA().issue_cert("client@models.test"))
    with blocking_server(demanding(authority, version)) as place:
        message = refused(project, place, "client.pem")
    words = "it refuses the client certificate; look at `client_cert` of the target"
    assert message == f"no secure connection to {place}: {words}"


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_a_server_that_hangs_up_without_a_word(
    version: ssl.TLSVersion, project: Project, authority: trustme.CA
) -> None:
    """It may be overloaded, so it is asked again; but what else may be wrong is said."""
    with FakeServer(tls=demanding(authority, version)) as server:
        error = run(project, suite_of(server, max_retries=1, retry_initial_delay_ms=1), code=3)["error"]
        assert server.requests == []
    hint = "; if it requires a client certificate, name one as `client_cert` of the target (tried 2 times)"
    assert error["message"].endswith(hint)


# Files that are not there, or not what they should be


def test_a_missing_file_is_found_before_the_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERT_FOLDER", "nowhere")
    target = {"name": "model", "provider": "openai", "model": "m", "base_url": "https://127.0.0.1:1/v1"}
    suite = {"target": "model", "evals": [{"prompt": "Hello?", "checks": [{"match": "*"}]}]}
    for value, at in (
        ("missing.pem", "client_cert"),
        ("${{ CERT_FOLDER }}/missing.pem", "client_cert"),
        ({"cert": "evals.yaml", "key": "missing.pem"}, "client_cert.key"),
    ):
        errors = project.errors({"targets": [{**target, "client_cert": value}], **suite})
        assert codes(errors) == ["file-not-found"]
        assert errors[0]["path"] == f"targets[0].{at}"
        assert "missing.pem` for `client_cert` in " in errors[0]["message"]
        assert "missing.pem" in project.invoke("run", "evals.yaml").output
    (project.folder / "evals.yaml").unlink()
    project.write(".rejoinder/targets.yaml", {"targets": [{**target, "client_cert": "missing.pem"}]})
    assert "missing.pem` for `client_cert` in " in project.run("targets")


@pytest.mark.parametrize("value", [7, ["client.pem"], {}, {"key": "client.pem"}, {"cert": "c", "other": "d"}, ""])
def test_what_is_no_certificate_is_refused(value: Any, project: Project) -> None:
    target = {"name": "model", "provider": "openai", "model": "m", "client_cert": value}
    errors = project.errors({"targets": [target], "evals": [{"prompt": "Hello?", "checks": [{"match": "*"}]}]})
    assert errors


@pytest.mark.parametrize("content", ["certificate only", "no certificate"])
def test_a_file_that_cannot_be_used(
    content: str, project: Project, authority: trustme.CA, client: trustme.LeafCert
) -> None:
    chain = b"".join(pem.bytes() for pem in client.cert_chain_pems)
    project.write("client.pem", chain if content == "certificate only" else content)
    with FakeServer(tls=demanding(authority)) as server:
        project.write("evals.yaml", suite_of(server, "client.pem"))
        with pytest.raises(UsageError, match=r"target `model` has a `client_cert` that cannot be used") as caught:
            project.run("run", "evals.yaml")
        assert server.requests == []
    assert "private key in PEM" in (caught.value.hint or "")


def test_a_wrong_password_is_not_asked_for_at_the_terminal(
    project: Project, authority: trustme.CA, client: trustme.LeafCert
) -> None:
    key = serialization.load_pem_private_key(client.private_key_pem.bytes(), None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(PASSWORD.encode()),
    )
    project.write("client.pem", key + b"".join(pem.bytes() for pem in client.cert_chain_pems))
    for value in ("client.pem", {"cert": "client.pem", "password": "wrong"}):
        with FakeServer(tls=demanding(authority)) as server:
            project.write("evals.yaml", suite_of(server, value))
            with pytest.raises(UsageError, match="cannot be used") as caught:
                project.run("run", "evals.yaml")
        assert "`password` opens an encrypted one" in (caught.value.hint or "")
