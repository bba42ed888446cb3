"""Cases of suites as items of pytest: what is collected, how it is called, and how it ends."""

from __future__ import annotations

import pytest

from rejoinder.testing import FakeServer
from tests.kit import Project, Raw, behind, case, follow, run_folders, scripted, spec
from tests.pytest_plugin.session_kit import BAD, GOOD, junit, only_run_of, pytest_in, suite

pytestmark = pytest.mark.slow
VARIANTS = [{"name": "v", "vars": {"result": "105"}}, {"name": "w", "vars": {"result": "106"}}]


@spec("3B")
def test_each_case_is_an_item_and_plain_pytest_shows_its_result(project: Project) -> None:
    """deepeval's users saw no results in plain pytest."""
    recovers = {"id": "back", "prompt": "Q", "checks": [BAD, follow("Again.", GOOD)]}
    project.write("evals.yaml", suite(case("good", GOOD), case("bad", BAD), recovers))
    done = pytest_in(project)
    assert done.outcomes == {
        "evals.yaml::good": "PASSED",
        "evals.yaml::bad": "FAILED",
        "evals.yaml::back": "ERROR",
    }, done.text
    assert done.code == 1
    assert "✗ Question bad [bad]" in done.text
    assert 'contains "106": the reply does not contain it' in done.text
    assert "< 15 * 7 = 105" in done.text
    assert "has run out of replies" in done.text
    assert "Traceback" not in done.text
    assert "pytest_plugin" not in done.text.partition("=\n")[2]
    assert f"run {only_run_of(project.folder).name}: rejoinder show" in done.last_lines


def test_the_run_is_an_ordinary_run(project: Project) -> None:
    project.write("evals.yaml", suite(case("good", GOOD), case("bad", BAD)))
    pytest_in(project)
    run = only_run_of(project.folder).name
    assert "1 failed" in project.run("show", run, code=None)
    assert project.run_json("show", run, code=None)["summary"]["passed"] == 1
    project.run("baseline", "save", run, "--name", "main")
    assert "gate" in project.run("gate", run, "--rule", "rate>=90%", code=1)
    project.run("resume", run, code=1)


def test_node_ids_name_targets_and_variants_where_there_are_several(project: Project) -> None:
    project.write("evals.yaml", suite(case("one"), targets=[scripted("a", "x"), scripted("b", "y")]))
    both = ["--rejoinder-model", "a", "--rejoinder-model", "b"]
    done = pytest_in(project, *both)
    assert set(done.outcomes) == {"evals.yaml::one[a]", "evals.yaml::one[b]"}, done.text
    variants = [{"name": "terse", "prompt_prefix": "Short: "}, {"name": "kind", "prompt_prefix": "Kind: "}]
    targets = [scripted("a", "x"), scripted("b", "y")]
    project.write("evals.yaml", suite(case("one"), targets=targets, target="a", variants=variants))
    assert set(pytest_in(project).outcomes) == {"evals.yaml::one[terse]", "evals.yaml::one[kind]"}
    listed = pytest_in(project, *both, "--collect-only", "-qq").text
    for inside in ("a-terse", "a-kind", "b-terse", "b-kind"):
        assert f"evals.yaml::one[{inside}]" in listed
    chosen = pytest_in(project, *both, "evals.yaml::one[b-kind]")
    assert chosen.outcomes == {"evals.yaml::one[b-kind]": "PASSED"}, chosen.text
    assert "--rejoinder-model" not in chosen.last_lines


def test_every_trial_counts_by_the_rule_of_the_case(project: Project) -> None:
    replies = {"flaky": ["105"], "some": ["105"], "*": ["none"]}
    flaky = {"id": "flaky", "prompt": "Q", "checks": [GOOD], "repeat": 3}
    some = {"id": "some", "prompt": "Q", "checks": [GOOD], "repeat": 2, "pass": "1 of 2"}
    never = {"id": "never", "prompt": "Q", "checks": [GOOD], "repeat": 3, "pass": "2 of 3"}
    project.write("evals.yaml", suite(flaky, some, never, replies=replies))
    done = pytest_in(project, "--junitxml", "junit.xml")
    assert done.outcomes == {
        "evals.yaml::flaky": "PASSED",
        "evals.yaml::some": "PASSED",
        "evals.yaml::never": "FAILED",
    }, done.text
    assert "0 of 3 passed, 2 of 3 needed" in done.text
    tests = {one.get("name"): one for one in junit(project.folder / "junit.xml").iter("testcase")}
    properties = {one.get("name"): one.get("value") for one in tests["flaky"].iter("property")}
    assert properties["rejoinder.pass_rate"] == "1"
    assert {"rejoinder.ci_low", "rejoinder.ci_high", "rejoinder.run"} <= set(properties)
    whole = {one.get("name"): one.get("value") for one in junit(project.folder / "junit.xml")[0][0]}
    assert whole["rejoinder.run"] == only_run_of(project.folder).name
    assert whole["rejoinder.pass_rate"] == "0.625"
    assert {"rejoinder.ci_low", "rejoinder.ci_high"} <= set(whole)


SEVERAL: dict[str, tuple[Raw, dict[str, str], str]] = {
    "targets": (
        suite(case("a", GOOD), targets=[scripted("right", "105"), scripted("wrong", "1")], target=["right", "wrong"]),
        {"right": "1", "wrong": "0"},
        "1 of 2 conversations passed; right 100% (21 to 100), wrong 0% (0 to 79); run",
    ),
    "variants": (
        suite(case("a", {"contains": "{{ result }}"}), variants=VARIANTS),
        {"v": "1", "w": "0"},
        "1 of 2 conversations passed; v 100% (21 to 100), w 0% (0 to 79); run",
    ),
    "pairs": (
        suite(
            case("a", {"contains": "{{ result }}"}),
            targets=[scripted("x", "105"), scripted("y", "105 or 106")],
            target=["x", "y"],
            variants=VARIANTS,
        ),
        {"x-v": "1", "x-w": "0", "y-v": "1", "y-w": "1"},
        "x / w 0% (0 to 79), y / v 100% (21 to 100), y / w 100% (21 to 100); run",
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_targets_or_variants_have_a_rate_each(name: str, project: Project) -> None:
    written, rates, line = SEVERAL[name]
    project.write("evals.yaml", written)
    done = pytest_in(project, "--junitxml", "junit.xml")
    assert line in done.last_lines, done.text
    whole = {str(one.get("name")): one.get("value") for one in junit(project.folder / "junit.xml")[0][0]}
    assert {key: value for key, value in whole.items() if "pass_rate" in key} == {
        f"rejoinder.pass_rate[{part}]": rate for part, rate in rates.items()
    }
    assert {f"rejoinder.ci_{end}[{part}]" for part in rates for end in ("low", "high")} < set(whole)


def test_repeat_is_an_option(project: Project) -> None:
    project.write("evals.yaml", suite(case("one", GOOD)))
    done = pytest_in(project, "--rejoinder-repeat", "3")
    assert "3 of 3 passed" in done.last_lines


def test_tags_are_marks_and_never_change_a_case(project: Project) -> None:
    project.write(
        "evals.yaml",
        suite(
            case("a", GOOD, tags=["slow-ish"]), case("b", BAD, tags=["skip", "xfail"]), case("c", GOOD, tags=["_", "9"])
        ),
    )
    assert pytest_in(project, "-m", "slow_ish", "--strict-markers").outcomes == {"evals.yaml::a": "PASSED"}
    done = pytest_in(project, "--strict-markers", "-W", "error")
    assert done.outcomes["evals.yaml::b"] == "FAILED", done.text
    assert pytest_in(project, "-m", "tag_skip").outcomes == {"evals.yaml::b": "FAILED"}


def test_a_case_in_quarantine_is_an_expected_failure(project: Project) -> None:
    apart = {"quarantine": {"until": "2999-01-01", "reason": "a new model"}}
    project.write("evals.yaml", suite(case("bad", BAD, **apart), case("good", GOOD, **apart), case("one", GOOD)))
    done = pytest_in(project, "-o", "xfail_strict=true", "-rx")
    assert done.outcomes == {
        "evals.yaml::bad": "XFAIL",
        "evals.yaml::good": "XPASS",
        "evals.yaml::one": "PASSED",
    }, done.text
    assert done.code == 0
    assert "in quarantine until 2999-01-01: a new model" in done.text


@spec("P45")
def test_a_session_whose_cases_are_all_in_quarantine_does_not_pass(project: Project) -> None:
    """Nothing counts: errors fail the session, and otherwise it has no result, like `rejoinder run`."""
    apart = {"quarantine": {"until": "2999-01-01", "reason": "a new model"}}
    project.write("evals.yaml", suite(case("silent", GOOD, **apart), replies={"*": []}))
    done = pytest_in(project)
    assert (done.code, done.outcomes) == (1, {"evals.yaml::silent": "XFAIL"}), done.text
    assert "nothing counts: 1 conversation in quarantine, 1 error; run" in done.last_lines
    project.run("run", "evals.yaml", code=3)
    project.write("evals.yaml", suite(case("bad", BAD, **apart)))
    done = pytest_in(project)
    assert (done.code, done.outcomes) == (5, {"evals.yaml::bad": "XFAIL"}), done.text
    assert "nothing counts: 1 conversation in quarantine; run" in done.last_lines
    project.run("run", "evals.yaml", code=5)
    project.write("test_mine.py", "def test_mine(): pass\n")
    assert pytest_in(project).code == 0


@spec("P45")
def test_an_error_is_not_the_failure_that_a_quarantine_expects(project: Project) -> None:
    apart = {"quarantine": {"until": "2999-01-01", "reason": "a new model"}}
    replies = {"silent": [], "*": ["none"]}
    project.write("shop.yaml", suite(case("silent", GOOD, **apart), case("bad", GOOD, **apart), replies=replies))
    project.write(
        "test_shop.py",
        "from rejoinder.testing import assert_passed, cases\n"
        "@cases('shop.yaml')\n"
        "def test_case(rejoinder, case):\n    assert_passed(rejoinder.run(case))\n",
    )
    done = pytest_in(project, on=False)
    assert done.outcomes == {"test_shop.py::test_case[silent]": "FAILED", "test_shop.py::test_case[bad]": "XFAIL"}
    assert "nothing counts: 1 conversation in quarantine, 1 error" in done.text


def test_mistakes_are_a_collection_error_in_the_words_of_validate(project: Project) -> None:
    project.write("evals.yaml", "evals:\n  - promt: Hello\n")
    done = pytest_in(project)
    assert done.code == 2
    validated = project.run("validate", "evals.yaml", code=2)
    first = next(line for line in validated.splitlines() if line.startswith("error[unknown-key]"))
    assert first in done.text
    assert "did you mean" in done.text
    assert "Traceback" not in done.text
    assert run_folders(project.folder) == []


def test_files_are_found_by_patterns_and_others_are_left_alone(project: Project) -> None:
    good = suite(case("one", GOOD))
    for name in ("evals.yaml", "shop.eval.yaml", "evals/deep/er.yaml", "other.yaml", "sub/evals.yaml"):
        project.write(name, good)
    project.write("evals/notes.yaml", "hello: there\n")
    project.write("evals/targets.yaml", "targets: []\n")
    project.write("evals/broken.yaml", "a: [\n")
    done = pytest_in(project, "--collect-only", "-qq")
    for name in ("evals.yaml", "shop.eval.yaml", "evals/deep/er.yaml", "sub/evals.yaml"):
        assert f"{name}::one" in done.text
    assert "other.yaml" not in done.text
    assert done.code == 0
    assert pytest_in(project, "other.yaml").outcomes == {"other.yaml::one": "PASSED"}
    assert pytest_in(project, "evals/notes.yaml").code == 2
    assert pytest_in(project, "-o", "rejoinder_files=oth*.yaml").outcomes == {"other.yaml::one": "PASSED"}


def test_the_configuration_switches_it_on(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nrejoinder = true\nrejoinder_files = a.yaml b.yaml\n")
    project.write("a.yaml", suite(case("one", GOOD)))
    project.write("evals.yaml", suite(case("one", GOOD)))
    assert pytest_in(project, on=False).outcomes == {"a.yaml::one": "PASSED"}


def test_without_the_option_nothing_is_collected_and_options_are_refused(project: Project) -> None:
    project.write("evals.yaml", suite(case("one", GOOD)))
    assert pytest_in(project, on=False).code == 5
    done = pytest_in(project, "--rejoinder-repeat", "2", on=False)
    assert done.code == 4
    assert "--rejoinder-repeat needs --rejoinder" in done.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rejoinder-repeat", "0"), "expected a number from 1"),
        (("--rejoinder-budget", "-1"), "expected a number of dollars above 0"),
        (("--rejoinder-budget", "nan"), "expected a number of dollars above 0"),
        (("--rejoinder-replay", "nowhere"), "nowhere is not a folder"),
        (("--rejoinder-against", "main", "-x"), "leave out one of them"),
    ],
)
def test_options_that_cannot_be_are_refused(project: Project, options: tuple[str, ...], words: str) -> None:
    project.write("evals.yaml", suite())
    done = pytest_in(project, *options)
    assert done.code == 4, done.text
    assert words in done.text


def test_strange_ids_have_names_of_their_own(project: Project) -> None:
    ids = ["a::b", "a:b", "line\nend", "x[1]", "\x1b[31m", "v1.2"]
    project.write("evals.yaml", suite(*(case(one, GOOD) for one in ids)))
    done = pytest_in(project, "--junitxml", "junit.xml")
    assert "6 passed" in done.text, done.text
    assert "\x1b[31m" not in done.text
    names = {one.get("name") for one in junit(project.folder / "junit.xml").iter("testcase")}
    assert len(names) == 6
    assert pytest_in(project, "evals.yaml::v1.2").outcomes == {"evals.yaml::v1.2": "PASSED"}
    assert (
        "1 passed" in pytest_in(project, "evals.yaml::a:b#2").text or "1 passed" in pytest_in(project, "-k", "v1").text
    )


def test_listing_sends_nothing_and_a_selection_runs_only_what_is_selected(project: Project) -> None:
    with FakeServer("105") as server:
        cases = [case("refund", GOOD), case("ship", GOOD), case("pay", GOOD)]
        project.write("evals.yaml", {"targets": [behind(server, "m")], "target": "m", "evals": cases})
        assert "evals.yaml::ship" in pytest_in(project, "--collect-only", "-qq").text
        assert len(server.requests) == 0
        assert run_folders(project.folder) == []
        assert pytest_in(project, "-k", "refund or pay").code == 0
        assert len(server.requests) == 2
        assert pytest_in(project, "evals.yaml::ship").outcomes == {"evals.yaml::ship": "PASSED"}
        assert len(server.requests) == 3


def test_last_failed_runs_what_failed(project: Project) -> None:
    with FakeServer("105") as server:
        cases = [case("good", GOOD), case("bad", BAD), case("worse", BAD)]
        project.write("evals.yaml", {"targets": [behind(server, "m")], "target": "m", "evals": cases})
        pytest_in(project)
        assert len(server.requests) == 3
        again = pytest_in(project, "--lf")
        assert again.outcomes == {"evals.yaml::bad": "FAILED", "evals.yaml::worse": "FAILED"}, again.text
        assert len(server.requests) == 5


BRACKETS: dict[str, Raw] = {
    "targets": suite(
        case("a", GOOD), targets=[scripted("right", "105"), scripted("wrong", "1")], target=["right", "wrong"]
    ),
    "variants": suite(
        case("a", {"contains": "{{ result }}"}),
        variants=VARIANTS,
    ),
    "ids": suite(case("odd[x]", BAD), case("odd[x", GOOD), case("fine[y]", GOOD), case("good", GOOD)),
}
"""Suites with items whose names have brackets."""


@pytest.mark.every(3)
@pytest.mark.parametrize("workers", [(), ("-n", "2")])
@pytest.mark.parametrize(("name", "failed"), [("targets", "a[wrong]"), ("variants", "a[w]"), ("ids", "odd[x]")])
def test_last_failed_finds_names_with_brackets(
    name: str, failed: str, workers: tuple[str, ...], project: Project
) -> None:
    """pytest 9.2 keeps the brackets of a node id apart, as parameters."""
    project.write("evals.yaml", BRACKETS[name])
    first = pytest_in(project, *workers)
    assert [item for item, word in first.outcomes.items() if word == "FAILED"] == [f"evals.yaml::{failed}"], first.text
    again = pytest_in(project, *workers, "--lf")
    assert again.outcomes == {f"evals.yaml::{failed}": "FAILED"}, again.text
    assert pytest_in(project, f"evals.yaml::{failed}").outcomes == {f"evals.yaml::{failed}": "FAILED"}


def test_xdist_need_not_be_there(project: Project) -> None:
    project.write("evals.yaml", suite(case("one", GOOD)))
    done = pytest_in(project, has_xdist=False)
    assert "plugins: xdist" not in done.text
    assert done.outcomes == {"evals.yaml::one": "PASSED"}


def test_one_run_for_several_files(project: Project) -> None:
    project.write("evals/a.yaml", suite(case("one", GOOD)))
    project.write("evals/b.yaml", suite(case("one", BAD)))
    done = pytest_in(project)
    assert done.outcomes == {"evals/a.yaml::one": "PASSED", "evals/b.yaml::one": "FAILED"}
    assert only_run_of(project.folder)


def test_cassettes_answer_without_a_call(project: Project) -> None:
    with FakeServer("105") as server:
        target = behind(server, "m")
        project.write("evals.yaml", {"targets": [target], "target": "m", "evals": [case("one", GOOD)]})
        project.run("run", "evals.yaml", "--record", "cassettes")
        asked = len(server.requests)
        assert pytest_in(project, "--rejoinder-replay", "cassettes").outcomes == {"evals.yaml::one": "PASSED"}
        assert len(server.requests) == asked
