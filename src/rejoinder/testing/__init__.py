"""Fake servers that speak the wire formats of language models, for tests without a network or a key.

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

from rejoinder.testing.judges import is_judging, judge, with_judge
from rejoinder.testing.limits import RateLimit
from rejoinder.testing.server import FakeServer
from rejoinder.testing.values import Answer, Fault, Received, ToolCall, embed

__all__ = [
    "Answer",
    "FakeServer",
    "Fault",
    "RateLimit",
    "Received",
    "ToolCall",
    "embed",
    "is_judging",
    "judge",
    "with_judge",
]
