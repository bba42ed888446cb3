"""Assertions about runs, and fake servers that speak the wire formats of language models: for tests.

    from rejoinder.testing import assert_passed, assert_rate, assert_no_worse, cases

The assertions raise AssertionError with the words of the terminal. They never pass on errors, on an empty run, or if a
run has no rate.

The fake servers need no network and no key.

One server answers for OpenAI (chat completions, responses, embeddings), Azure OpenAI, Anthropic and Gemini, on
loopback. It refuses requests that the real API would refuse, and it can fail on request in the ways that real ones do:

    >>> import http.client, json
    >>> from rejoinder.testing import Answer, Fault, FakeServer
    >>> def ask(server, question):
    ...     connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    ...     message = {"role": "user", "content": question}
    ...     body = json.dumps({"model": "fake-large", "messages": [message]})
    ...     connection.request("POST", "/v1/chat/completions", body)
    ...     response = connection.getresponse()
    ...     answer = json.loads(response.read())
    ...     connection.close()
    ...     return response.status, answer
    >>> def reply(request):
    ...     question = request.body["messages"][-1]["content"]
    ...     return Answer(f"You said: {question}", cached_tokens=20)
    >>> with FakeServer(reply, faults=[Fault("status", status=429, retry_after=2)]) as server:
    ...     status, error = ask(server, "Hello?")
    ...     print(status, error["error"]["code"])
    ...     status, answer = ask(server, "Hello?")
    ...     print(status, answer["choices"][0]["message"]["content"])
    ...     print(answer["usage"]["prompt_tokens_details"]["cached_tokens"], len(server.requests))
    429 rate_limit_exceeded
    200 You said: Hello?
    20 2

It turns texts into vectors by the words in them, or by your own function (`embed`). It can also be a judge beside the
model under test: `with_judge` distinguishes the requests, `judge` makes the answer.

Streaming is not supported; a request for it gets an error that says so.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rejoinder.testing.assertions import assert_no_worse as assert_no_worse
    from rejoinder.testing.assertions import assert_passed as assert_passed
    from rejoinder.testing.assertions import assert_rate as assert_rate
    from rejoinder.testing.judges import is_judging as is_judging
    from rejoinder.testing.judges import judge as judge
    from rejoinder.testing.judges import with_judge as with_judge
    from rejoinder.testing.limits import RateLimit as RateLimit
    from rejoinder.testing.matchers import assert_all_passed as assert_all_passed
    from rejoinder.testing.matchers import assert_failed_count as assert_failed_count
    from rejoinder.testing.matchers import assert_passed_count as assert_passed_count
    from rejoinder.testing.matchers import assert_rate_above as assert_rate_above
    from rejoinder.testing.matchers import assert_rate_below as assert_rate_below
    from rejoinder.testing.runner import Runner as Runner
    from rejoinder.testing.server import FakeServer as FakeServer
    from rejoinder.testing.suite_cases import SuiteCase as SuiteCase
    from rejoinder.testing.suite_cases import cases as cases
    from rejoinder.testing.values import Answer as Answer
    from rejoinder.testing.values import Fault as Fault
    from rejoinder.testing.values import Received as Received
    from rejoinder.testing.values import ToolCall as ToolCall
    from rejoinder.testing.values import embed as embed

_NAMES = {
    "rejoinder.testing.assertions": "assert_no_worse assert_passed assert_rate",
    "rejoinder.testing.judges": "is_judging judge with_judge",
    "rejoinder.testing.limits": "RateLimit",
    "rejoinder.testing.matchers": (
        "assert_all_passed assert_failed_count assert_passed_count assert_rate_above assert_rate_below"
    ),
    "rejoinder.testing.runner": "Runner",
    "rejoinder.testing.server": "FakeServer",
    "rejoinder.testing.suite_cases": "SuiteCase cases",
    "rejoinder.testing.values": "Answer Fault Received ToolCall embed",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
"""Imported on first use: the fake servers need nothing of the assertions, and no test needs all of them."""
__all__ = [*_HOMES]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll] - all are names


if not TYPE_CHECKING:  # to type checkers, a name that is not above is a mistake

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'rejoinder.testing' has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
