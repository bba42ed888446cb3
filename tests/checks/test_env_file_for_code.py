"""Variables of `.env` files reach the user's own code, and nothing that decides whom we ask reads them back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rejoinder.testing import FakeServer
from tests.kit import Project, scripted

READS = "import os\nAT_IMPORT = os.environ.get('SHOP_NAME')\n"
BOT = f"{READS}def reply(request):\n    return f\"{{AT_IMPORT}} {{os.environ.get('SHOP_NAME')}}\"\n"


def suite(wanted: str, **more: Any) -> dict[str, Any]:
    return {
        "targets": [{"name": "mine", "provider": "python", "call": "bot:reply"}],
        "evals": [{"id": "a", "prompt": "Hi", "checks": [{"equals": wanted}]}],
        **more,
    }


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_NAME", raising=False)


def test_a_python_target_sees_the_variables(project: Project) -> None:
    project.write(".env", "SHOP_NAME=Corner\n")
    project.write("bot.py", BOT)
    project.write("evals.yaml", suite("Corner Corner"))
    project.run("run")
    assert "SHOP_NAME" not in os.environ  # it was lent for the run alone


def test_what_is_set_wins(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_NAME", "Market")
    project.write(".env", "SHOP_NAME=Corner\n")
    project.write("bot.py", BOT)
    project.write("evals.yaml", suite("Market Market"))
    project.run("run")
    assert os.environ["SHOP_NAME"] == "Market"


@pytest.mark.parametrize("check", [{"python": "judges:same"}, {"check": "same"}, {"code": "test $SHOP_NAME = Corner"}])
def test_checks_see_the_variables(project: Project, check: dict[str, str]) -> None:
    function = "def same(context):\n    return AT_IMPORT == os.environ['SHOP_NAME'] == 'Corner'\n"
    project.write(".env", "SHOP_NAME=Corner\n")
    project.write("judges.py", READS + function)
    project.write(".rejoinder/checks.py", f"import rejoinder\n{READS}@rejoinder.check\n{function}")
    target = scripted("mine", "x")
    project.write("evals.yaml", {"targets": [target], "evals": [{"prompt": "Hi", "checks": [check]}]})
    project.run("run")


def test_targets_check_gives_them_too(project: Project) -> None:
    project.write(".env", "SHOP_NAME=Corner\n")
    project.write("bot.py", BOT)
    project.write("evals.yaml", suite("x"))
    [probe] = project.run_json("targets", "check", "mine", "--suite", "evals.yaml")
    assert probe["reply"] == "Corner Corner"


def two_projects(project: Project, first: str, second: str) -> None:
    for name, value in (("one", first), ("two", second)):
        project.write(f"{name}/.rejoinder/config.yaml", "{}\n")
        project.write(f"{name}/.env", f"SHOP_NAME={value}\n")
        project.write(f"{name}/bot.py", BOT)
        project.write(f"{name}/evals.yaml", suite(f"{value} {value}"))


def test_two_suites_that_agree_run_together(project: Project) -> None:
    two_projects(project, "Corner", "Corner")
    project.run("run", "one/evals.yaml", "two/evals.yaml")


def test_two_suites_that_disagree_are_refused(project: Project) -> None:
    two_projects(project, "Corner", "Market")
    error = project.invoke("run", "one/evals.yaml", "two/evals.yaml").exception
    assert "`SHOP_NAME` of the .env files of" in str(error)
    assert "SHOP_NAME" not in os.environ
    project.run("run", "two/evals.yaml")


def test_scripts_of_two_suites_have_each_their_own(project: Project) -> None:
    for name in ("one", "two"):
        project.write(f"{name}/.rejoinder/config.yaml", "{}\n")
        project.write(f"{name}/.env", f"SHOP_NAME={name}\n")
        target = scripted("mine", "x")
        check = {"code": f"test $SHOP_NAME = {name}"}
        project.write(f"{name}/evals.yaml", {"targets": [target], "evals": [{"prompt": "Hi", "checks": [check]}]})
    project.run("run", "one/evals.yaml", "two/evals.yaml")


@pytest.mark.parametrize(
    "name", ["HTTPS_PROXY", "http_proxy", "SSL_CERT_FILE", "SSLKEYLOGFILE", "REJOINDER_TRUST_ENV", "XDG_CONFIG_HOME"]
)
def test_variables_that_steer_rejoinder_are_not_lent(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str, tmp_path: Path
) -> None:
    monkeypatch.delenv(name, raising=False)
    project.write(".env", f"{name}={tmp_path / 'nothing'}\n")
    project.write("bot.py", f"import os\ndef reply(request):\n    return str(os.environ.get({name!r}))\n")
    project.write("evals.yaml", suite("None"))
    project.run("run")


@pytest.mark.spec("P41")
def test_a_lent_address_is_not_read_back_for_another_project(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first suite's `.env` names an address. It is lent to its code, and the second suite never asks there."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-real-environment")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with FakeServer() as stranger, FakeServer() as own:
        two_projects(project, "Corner", "Corner")
        project.write("one/.env", f"SHOP_NAME=Corner\nOPENAI_BASE_URL={stranger.url}/v1\n")
        target = {"name": "mine", "provider": "openai", "model": "gpt-5-mini"}
        case = {"prompt": "Hi", "checks": [{"match": "*"}]}
        project.write("two/.env", f"OPENAI_BASE_URL={own.url}/v1\n")
        project.write("two/evals.yaml", {"targets": [target], "evals": [case]})
        project.invoke("run", "one/evals.yaml", "two/evals.yaml")
        assert stranger.requests == []
