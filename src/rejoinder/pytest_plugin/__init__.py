"""The pytest plugin: cases of suites as tests, and the fixture `rejoinder`.

pytest loads this module at the start of every session. It imports nothing of rejoinder until a session asks for it.
"""

from __future__ import annotations

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rejoinder.testing.runner import Runner

PATTERNS = [
    *("evals.yaml", "evals.yml", "eval.yaml", "eval.yml", "rejoinder.yaml", "rejoinder.yml"),
    *("*.eval.yaml", "*.eval.yml", "*.rejoinder.yaml", "*.rejoinder.yml", "evals/**/*.yaml", "evals/**/*.yml"),
]
"""With the names that `rejoinder run` looks for. They are not imported from there: a session without rejoinder pays for
every import."""
OPTIONS = ("model", "repeat", "replay", "budget", "against")
"""They change runs of collected suites, so they need `--rejoinder`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rejoinder", "rejoinder: cases of suites as tests")
    group.addoption("--rejoinder", action="store_true", help="collect suites: those named, and `rejoinder_files`")
    group.addoption(
        "--rejoinder-model",
        metavar="NAME",
        action="append",
        help="run on this target or provider/model instead of the suites' own; repeatable",
    )
    group.addoption("--rejoinder-repeat", metavar="N", type=int, help="run each case N times")
    group.addoption("--rejoinder-replay", metavar="DIR", help="answer from these cassettes, without any call")
    group.addoption("--rejoinder-budget", metavar="USD", type=float, help="spend at most this many dollars")
    group.addoption(
        "--rejoinder-against", metavar="BASELINE", help="compare the run with a baseline; fail if it is worse"
    )
    parser.addini("rejoinder", "collect suites without --rejoinder", type="bool", default=False)
    parser.addini("rejoinder_files", "patterns of files that are suites", type="args", default=PATTERNS)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("rejoinder") or config.getini("rejoinder"):
        from rejoinder.pytest_plugin.session import SuiteSession

        config.pluginmanager.register(SuiteSession(config), "rejoinder-suites")
        return
    for name in OPTIONS:
        if config.getoption(f"rejoinder_{name}") is not None:
            raise pytest.UsageError(f"--rejoinder-{name} needs --rejoinder, or `rejoinder = true` in the configuration")


@pytest.fixture(name="rejoinder")
def runner(request: pytest.FixtureRequest) -> Runner:
    """Run suites inside a test: `rejoinder.run("evals.yaml")`, `await rejoinder.arun("evals.yaml")`."""
    from rejoinder.testing.runner import Runner

    return Runner(request.node)
