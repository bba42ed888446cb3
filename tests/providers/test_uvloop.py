"""Programs that have installed uvloop's event loop can run suites, too."""

from __future__ import annotations

import json
import ssl
import sys

import pytest
import trustme

from rejoinder.testing import FakeServer
from tests.kit import Project, behind, case, run_process

pytestmark = pytest.mark.slow

PROGRAM = """
import asyncio, json, sys, warnings
import uvloop
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons want no policies
asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
import rejoinder
report = rejoinder.run("evals.yaml")
print(json.dumps([report.summary.passed, [str(one.error) for one in report.results]]))
"""


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_http_targets_work_under_uvloop(
    tls: bool, project: Project, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(project.folder / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(project.folder / "authority.pem"))
    program = project.write("program.py", PROGRAM)
    with FakeServer(tls=context if tls else None) as server:
        service = {"name": "service", "provider": "http", "url": server.openai_url + "/chat/completions"}
        service |= {"body": {"model": "x", "messages": "{{ messages }}"}, "reply_path": "choices[0].message.content"}
        evals = [case(f"c{number}", {"match": "*OK*"}, {"code": "echo true"}) for number in range(5)]
        for target in (behind(server, "model"), service):
            project.write("evals.yaml", {"targets": [target], "target": target["name"], "evals": evals})
            ended = run_process(project.folder, command=[sys.executable, str(program)])
            assert ended.code == 0, ended.err
            assert json.loads(ended.out) == [5, ["None"] * 5], ended.err
