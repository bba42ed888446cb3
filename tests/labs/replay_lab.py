"""Suites with scripted answers, run and played again without any connection."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.kit import Project, Raw, scripted


def play(project: Project, *arguments: str, code: int | None = None) -> Raw:
    result = project.invoke(*arguments, "--format", "json")
    assert code in (None, result.exit_code), (result.exit_code, result.output)
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert result.stdout, result.stderr
    return json.loads(result.stdout)


@contextlib.contextmanager
def sockets_blocked() -> Iterator[None]:
    """No address is reached; and an attempt is not forgotten, even where it counts as an error."""
    tried: list[Any] = []

    def refuse(_: socket.socket, address: Any) -> None:
        tried.append(address)
        raise ConnectionRefusedError(f"{address} is not to be reached")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket.socket, "connect_ex", refuse)
        patch.setattr(socket, "getaddrinfo", lambda host, *_, **__: refuse(None, host))  # type: ignore[arg-type]
        yield
    assert tried == []


SAID = st.sampled_from(["yes", "no", "yes and no", "", "Grüße\nan  alle\n", "{{ no", "<<secret>>", "a: b # c"])


REPLY = st.one_of(
    SAID,
    st.fixed_dictionaries({"text": SAID, "input_tokens": st.integers(0, 9), "output_tokens": st.integers(0, 9)}),
    st.fixed_dictionaries({"error": st.just("busy"), "retryable": st.just(True)}),
    st.sampled_from([{"error": "gone"}, {"text": "yes", "tool_calls": [{"name": "look", "arguments": {"for": "é"}}]}]),
)


VERDICT = st.one_of(
    st.sampled_from([0, 1, 0.4, 0.6]),
    st.sampled_from(["I would rather not say.", "", '{"score": "high"}', 'Well: {"score": 1, "reasoning": "fine"}']),
    st.sampled_from([{"score": 0.7, "hits": ["a"], "misses": ["b", "c"], "reasoning": "so so"}, {"score": 0}]),
    st.sampled_from(['{"criteria": [{"id": "1", "met": true}, {"id": "2", "met": false}]}', '{"better": "1"}']),
    st.sampled_from([{"error": "busy", "retryable": True}, {"error": "gone"}]),
)


OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "metric": st.sampled_from(["tone", "sense"]),
    "required": st.booleans(),
    "weight": st.integers(0, 3),
}


JUDGING = st.one_of(
    st.builds(
        lambda votes, how, invalid: {
            "llm_judge": {"criteria": "Is it polite?", "votes": votes, "combine": how, "on_invalid": invalid}
        },
        st.integers(1, 3),
        st.sampled_from(["mean", "majority"]),
        st.sampled_from(["error", "zero"]),
    ),
    st.just({"rubric": {"criteria": ["It greets.", {"criterion": "It is short.", "required": True}], "votes": 2}}),
    st.sampled_from(
        [{"compare": {"reply": "no"}}, {"compare": {"reply_of": "other"}}, {"compare": {"reply_of": "it"}}]
    ),
    st.just({"semantic": {"expected": ["yes", "no"], "threshold": 0.9}}),
    st.just({"semantic": {"expected": "of which there is no vector", "threshold": 0.5}}),
)


def checks(module: str, depth: int = 2) -> st.SearchStrategy[list[Raw]]:
    leaf = st.one_of(
        st.sampled_from([{"match": "*yes*"}, {"contains": "no"}, {"min_words": 2}, {"latency": 5}, {"is_json": True}]),
        JUDGING,
        st.sampled_from([{"python": f"{module}:either"}, {"python": f"{module}:fails"}]),
    )
    one = leaf if not depth else st.one_of(leaf, leaf, leaf, _inner(module, depth))
    named = st.builds(lambda check, more: {**check, **more}, one, st.fixed_dictionaries({}, optional=OPTIONAL))
    plain = st.lists(named, min_size=1, max_size=3)
    return plain if not depth else st.builds(_with_follow_up, plain, st.none() | checks(module, depth - 1))


def _inner(module: str, depth: int) -> st.SearchStrategy[Raw]:
    inner = st.lists(checks(module, 0), min_size=1, max_size=2).map(
        lambda lists: [one for some in lists for one in some]
    )
    return st.one_of(
        inner.map(lambda some: {"or": some}),
        inner.map(lambda some: {"group": {"at_least": 1, "checks": some}}),
        inner.map(lambda some: {"not": {name: value for name, value in some[0].items() if name not in OPTIONAL}}),
    )


def _with_follow_up(plain: list[Raw], below: list[Raw] | None) -> list[Raw]:
    if below is None:
        return plain
    return [*plain, {"prompt": 'You said "{{ response }}"; {{ failed }}\nTry again.', "checks": below}]


@st.composite
def suites(draw: st.DrawFn, module: str) -> tuple[Raw, list[str]]:
    """A suite of scripted targets, and the options of a run."""
    vectors = draw(st.sampled_from([{"yes": [1, 0], "no": [0, 1], "*": [1, 1]}, {"yes": [1, 0], "no": [0.5, 1]}]))
    patient = {"max_retries": draw(st.integers(0, 2)), "retry_initial_delay_ms": 0}
    targets = [
        scripted(name, *draw(st.lists(REPLY, max_size=6)), judge=draw(st.lists(VERDICT, max_size=8)), **patient)
        for name in ("it", "other", "judge")
    ]
    cases = [
        {
            **({"id": f"case {number}"} if draw(st.booleans()) else {}),
            "prompt": f"{draw(SAID)} ({number})",
            "checks": draw(checks(module)),
            **draw(st.fixed_dictionaries({}, optional={"max_turns": st.integers(1, 4), "threshold": st.just(0.5)})),
            "followups": draw(st.sampled_from(["first", "all"])),
        }
        for number in range(draw(st.integers(1, 3)))
    ]
    suite = {
        "target": "it",
        "embedding_target": "vectors",
        **({"judge_target": "judge"} if draw(st.booleans()) else {}),
        "targets": [*targets, scripted("vectors", embeddings=vectors)],
        "evals": cases,
    }
    options = ["--repeat", str(draw(st.integers(1, 2))), "--workers", str(draw(st.integers(1, 4)))]
    return suite, options + draw(st.sampled_from([[], ["--target", "it", "--target", "other"]]))


SIMPLE: Raw = {
    "target": "it",
    "targets": [scripted("it", "no", "yes", "maybe", judge=[1, 1, 1])],
    "evals": [
        {
            "id": "one",
            "prompt": "First line.\nSecond line.\nThird line.",
            "checks": [{"match": "*yes*"}, {"prompt": "Think again.", "checks": [{"match": "*yes*"}]}],
        },
        {"id": "two", "prompt": "Hello?", "checks": [{"llm_judge": {"criteria": "Is it polite?"}}]},
        {"id": "three", "prompt": "And you?", "checks": [{"contains": "no"}]},
    ],
}
