"""Embeddings: our requests are those of the vendors' own clients, answers are read whichever way they are written, and
what is no vector is refused. The fake servers make vectors that the clients can read."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import struct
from array import array
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import ValidationError

from rejoinder.model import Reply, Request, Target
from rejoinder.model.providers import PROVIDERS
from rejoinder.providers.base import ProviderError
from rejoinder.providers.registry import open_provider
from rejoinder.providers.shared import Exchange
from rejoinder.providers.vector_bytes import pack_vector, read_vector
from rejoinder.testing import FakeServer, Fault, Received, embed
from rejoinder.testing.gemini import EMBED_FIELDS
from tests.kit import Raw, bounded
from tests.labs.wire_lab import BIG, KEY, ODD, TARGETS, Lab, assert_same

TEXTS = {
    "plain": "What is the capital of France?",
    "lines": "  One.\r\n\nTwo, \t and three \n",
    "odd": ODD,
    "quotes": '{"a": "\\u0041"} \\ "b" \'c\' </script> {{ prompt }} ${{ KEY }}',
    "blank": " \n",
    "empty": "",
    "long": BIG[:50_000],
}
REFUSED = frozenset({"empty"})
"""What the APIs refuse: there is no meaning in nothing, and we do not make one up."""

MODELS: dict[str, Raw] = {
    "openai": {"model": "text-embedding-3-small"},
    "responses": {"model": "text-embedding-3-small"},
    "azure": {},
    "azure v1": {},
    "groq": {"model": "nomic-embed"},
    "gemini": {"model": "gemini-embedding-001"},
}
"""The APIs that give embeddings, and the model of each; Azure has deployments."""
APIS = tuple(MODELS)


def target_of(api: str, server: FakeServer) -> Raw:
    return TARGETS[api](server) | MODELS[api]


def ask_openai(client: str, model: str) -> Callable[[Lab, str, Raw], list[float]]:
    def ask(lab: Lab, text: str, more: Raw) -> list[float]:
        answer = lab.client(client).embeddings.create(model=model, input=text, **more)
        return answer.data[0].embedding

    return ask


def ask_gemini(lab: Lab, text: str, more: Raw) -> list[float]:
    from google.genai import types

    config = types.EmbedContentConfig(**more) if more else None
    answer = lab.client("gemini").models.embed_content(model="gemini-embedding-001", contents=text, config=config)
    return answer.embeddings[0].values


CLIENTS: dict[str, Callable[[Lab, str, Raw], list[float]]] = {
    "openai": ask_openai("openai", "text-embedding-3-small"),
    "responses": ask_openai("openai", "text-embedding-3-small"),
    "azure": ask_openai("azure", "deployed"),
    "azure v1": ask_openai("azure_v1", "deployed"),
    "groq": ask_openai("openai", "nomic-embed"),
    "gemini": ask_gemini,
}


@pytest.fixture(autouse=True)
def _nothing_seen(lab: Lab) -> None:
    lab.server.reset()


def request_for(text: str) -> Request:
    return Request(
        target="meaning", case_id="one", trial=1, turn=1, call=0, messages=(), question="", embed=text, key="the-call"
    )


def embedded(target: Raw, text: str, **more: Any) -> Reply:
    """What a provider makes of a text, on connections of its own."""
    given = {"api_key": KEY, **target, **more}
    provider = given.pop("provider")

    async def ask() -> Reply:
        exchange = Exchange()
        try:
            return await open_provider(
                Target(name="meaning", provider=provider, settings=given), (), {}, exchange
            ).reply(request_for(text))
        finally:
            await exchange.close()

    return asyncio.run(ask())


def failure(target: Raw, text: str = "A text", **more: Any) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        embedded(target, text, **more)
    return raised.value


def numbers(vector: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(vector) // 4}f", vector))


def as_32_bits(values: list[float]) -> list[float]:
    return list(array("f", values))


# What is sent.


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_sent_as_the_vendors_client_sends_it(lab: Lab, api: str, name: str) -> None:
    import openai
    from google.genai import errors

    text, refused = TEXTS[name], name in REFUSED
    reply = None if refused else embedded(target_of(api, lab.server), text)
    if refused:
        error = failure(target_of(api, lab.server), text)
        assert (error.status, error.retryable, error.ends_target) == (400, False, False)
    [ours] = lab.server.requests
    lab.server.reset()
    theirs: list[float] | None = None
    try:
        theirs = CLIENTS[api](lab, text, {})
    except (openai.BadRequestError, errors.ClientError):
        assert refused
    # Nothing of the body may differ: `assert_same` knows of header and path, with the reasons.
    assert_same(api, "an embedding", ours, lab.server.requests[0], refused=False)
    assert ours.headers["x-client-request-id"] == "the-call"
    if reply is not None and theirs is not None:
        assert numbers(reply.vector) == as_32_bits(theirs)
        assert (reply.text, reply.finish_reason, reply.tool_calls) == ("", None, ())


PARAMETERS: dict[str, tuple[Raw, Raw]] = {
    "openai": ({"dimensions": 32, "user": "me"}, {"dimensions": 32, "user": "me"}),
    "gemini": (
        {"outputDimensionality": 32, "taskType": "SEMANTIC_SIMILARITY", "title": "T"},
        {"output_dimensionality": 32, "task_type": "SEMANTIC_SIMILARITY", "title": "T"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_further_fields_are_sent_as_the_vendors_client_sends_them(lab: Lab, api: str) -> None:
    extra, options = PARAMETERS["gemini" if api == "gemini" else "openai"]
    reply = embedded(target_of(api, lab.server), "A text", extra_body=extra)
    [ours] = lab.server.requests
    lab.server.reset()
    theirs = CLIENTS[api](lab, "A text", options)
    assert_same(api, "an embedding", ours, lab.server.requests[0], refused=False)
    assert len(theirs) == 32
    assert numbers(reply.vector) == as_32_bits(theirs)


@pytest.mark.parametrize("api", APIS)
def test_what_concerns_words_is_not_sent_where_none_are_wanted(lab: Lab, api: str) -> None:
    embedded(target_of(api, lab.server), "A text", temperature=0.2, max_output_tokens=9, top_p=0.5)
    embedded(target_of(api, lab.server), "A text")
    with_settings, without = lab.server.requests
    assert with_settings.body == without.body


def test_gemini_s_models_are_named_in_full() -> None:
    with FakeServer() as server:
        for model in ("gemini-embedding-001", "models/gemini-embedding-001"):
            embedded({"provider": "gemini", "base_url": server.gemini_url, "model": model}, "A text")
        assert {received.path for received in server.requests} == {
            "/v1beta/models/gemini-embedding-001:batchEmbedContents"
        }
        assert {received.body["requests"][0]["model"] for received in server.requests} == {
            "models/gemini-embedding-001"
        }


@pytest.mark.parametrize("provider", sorted(name for name, info in PROVIDERS.items() if info.embeds and info.over_http))
def test_every_provider_that_is_said_to_embed_does(lab: Lab, provider: str) -> None:
    place = {"azure": {"endpoint": lab.server.azure_url}, "gemini": {"base_url": lab.server.gemini_url}}
    address = place.get(provider, {"base_url": lab.server.openai_url})
    reply = embedded({"provider": provider, "model": "a-model", **address}, "A text")
    assert numbers(reply.vector) == as_32_bits(embed("A text"))


# Who has no embeddings.


@pytest.mark.parametrize("provider", ["anthropic", "http", "mock"])
def test_who_cannot_embed_says_so_and_who_can(lab: Lab, provider: str) -> None:
    settings = {
        "anthropic": {"model": "claude", "base_url": lab.server.anthropic_url},
        "http": {"url": lab.server.openai_url},
        "mock": {"response": "Hello"},
    }[provider]
    error = failure({"provider": provider, **settings})
    assert (error.type, error.ends_target, error.retryable, error.pressure) == ("request", True, False, None)
    assert f"`{provider}` has no embeddings" in str(error)
    assert all(name in str(error) for name, info in PROVIDERS.items() if info.embeds)
    assert not PROVIDERS[provider].embeds
    assert lab.server.requests == []


# What is read.


def ok(body: Any) -> Fault:
    return Fault("status", status=200, body=body)


def of_openai(*vectors: Any, **more: Any) -> Raw:
    data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return {"object": "list", "data": data, "model": "the-model", **more}


def of_gemini(*vectors: Any, **more: Any) -> Raw:
    return {"embeddings": [{"values": vector} for vector in vectors], **more}


def packed(*values: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def answered(body: Any, api: str = "groq", text: str = "A text") -> Reply:
    with FakeServer(faults=[ok(body)]) as server:
        return embedded(target_of(api, server), text)


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("openai", of_openai(packed(1, -0.5, 0.1))),
        ("openai", of_openai([1, -0.5, 0.1])),
        ("azure", of_openai([1.0, -5e-1, 0.1])),
        ("gemini", of_gemini([1, -0.5, 0.1])),
    ],
    ids=["base64", "numbers", "numbers of azure", "gemini"],
)
def test_a_vector_is_the_same_however_it_is_written(api: str, body: Raw) -> None:
    reply = answered(body, api)
    assert reply.vector == struct.pack("<3f", 1, -0.5, 0.1)
    assert reply.model == (None if api == "gemini" else "the-model")


@pytest.mark.parametrize(("api", "body"), [("groq", of_openai([1, 0])), ("gemini", of_gemini([1, 0]))])
def test_a_vector_is_read_with_a_mark_before_it_and_rubbish_beside_it(api: str, body: Raw) -> None:
    text = json.dumps({"odd": "NaN", **body}).replace('"NaN"', "NaN")
    assert answered(b"\xef\xbb\xbf" + text.encode(), api).vector == struct.pack("<2f", 1, 0)


def test_all_that_an_answer_tells_is_in_the_reply(lab: Lab) -> None:
    replies = {api: embedded(target_of(api, lab.server), "one two three") for api in APIS}
    assert {api: reply.usage.input_tokens for api, reply in replies.items()} == dict.fromkeys(APIS, 3)
    assert not any(reply.usage.approximate or reply.usage.output_tokens for reply in replies.values())
    assert {api for api, reply in replies.items() if reply.request_id} == set(APIS) - {"gemini"}
    assert (replies["openai"].model, replies["azure"].model) == ("text-embedding-3-small", "deployed")


@pytest.mark.parametrize(
    ("api", "usage", "expected"),
    [
        ("openai", {"usage": {"prompt_tokens": 7, "total_tokens": 7}}, (7, False)),
        ("groq", {"usage": {"prompt_tokens": None, "total_tokens": 7}}, (7, False)),
        ("groq", {"usage": {"total_tokens": 7}}, (7, False)),
        ("groq", {"usage": None}, (3, True)),
        ("groq", {"usage": {"prompt_tokens": 0, "total_tokens": 0}}, (3, True)),
        ("groq", {}, (3, True)),
        ("groq", {"usage": {"prompt_tokens": 7.0}}, (7, False)),
        ("groq", {"usage": {"prompt_tokens": -7}}, (3, True)),
        ("groq", {"usage": "many"}, (3, True)),
        ("gemini", {"usageMetadata": {"promptTokenCount": 7}}, (7, False)),
        ("gemini", {"usageMetadata": {"promptTokenCount": 7.0}}, (7, False)),
        ("gemini", {"usageMetadata": {"promptTokenCount": -7}}, (3, True)),
        ("gemini", {}, (3, True)),
    ],
)
def test_tokens_are_the_server_s_or_estimated_from_the_text(api: str, usage: Raw, expected: tuple[int, bool]) -> None:
    body = (of_gemini if api == "gemini" else of_openai)([1.0, 0.0], **usage)
    used = answered(body, api, "nine tens.").usage
    assert (used.input_tokens, used.approximate) == expected
    assert used.output_tokens == 0


NO_VECTORS: dict[str, tuple[str, Any]] = {
    "no data": ("openai", {"object": "list", "model": "m"}),
    "a list": ("openai", []),
    "nothing": ("openai", b""),
    "no JSON": ("openai", b"<html>Sign in</html>"),
    "no UTF-8": ("openai", b'{"model": "\xff"}'),
    "too deep": ("openai", b'{"data": ' + b"[" * 100_000),
    "no vectors": ("openai", of_openai()),
    "two vectors": ("openai", of_openai([1.0], [2.0])),
    "an empty vector": ("openai", of_openai([])),
    "an empty text": ("openai", of_openai("")),
    "no vector": ("openai", {"data": [{"index": 0}]}),
    "null": ("openai", of_openai(None)),
    "a text among numbers": ("openai", of_openai([1.0, "2.0"])),
    "null among numbers": ("openai", of_openai([1.0, None])),
    "a truth among numbers": ("openai", of_openai([1.0, True])),
    "vectors of tokens": ("openai", of_openai([[1.0], [2.0]])),
    "NaN": ("openai", b'{"data": [{"embedding": [1.0, NaN]}]}'),
    "Infinity": ("openai", b'{"data": [{"embedding": [-Infinity]}]}'),
    "beyond 64 bits": ("openai", b'{"data": [{"embedding": [1e999]}]}'),
    "beyond 32 bits": ("openai", of_openai([0.0, 3.5e38])),
    "below 32 bits": ("openai", of_openai([-3.5e38])),
    "packed NaN": ("openai", of_openai(packed(1.0, math.nan))),
    "packed infinity": ("openai", of_openai(packed(math.inf))),
    "infinities that cancel": ("openai", of_openai(packed(math.inf, -math.inf))),
    "rubbish": ("openai", of_openai("#### no base64 ####")),
    "not ASCII": ("openai", of_openai("Zürich")),
    "unpadded": ("openai", of_openai(packed(1.0).rstrip("="))),
    "cut off": ("openai", of_openai(base64.b64encode(struct.pack("<2f", 1, 2)[:-1]).decode())),
    "gemini: nothing": ("gemini", {}),
    "gemini: no vectors": ("gemini", of_gemini()),
    "gemini: two vectors": ("gemini", of_gemini([1.0], [2.0])),
    "gemini: no values": ("gemini", {"embeddings": [{}]}),
    "gemini: an empty vector": ("gemini", of_gemini([])),
    "gemini: a text": ("gemini", of_gemini(["1.0"])),
    "gemini: beyond 32 bits": ("gemini", of_gemini([1e39])),
    "gemini: NaN": ("gemini", of_gemini(["NaN"])),
}


@pytest.mark.parametrize("name", NO_VECTORS)
def test_what_is_no_vector_is_refused(name: str) -> None:
    api, body = NO_VECTORS[name]
    with FakeServer(faults=[ok(body)]) as server:
        error = failure(target_of(api, server))
        assert len(server.requests) == 1
    assert (error.type, error.status) == ("bad-response", 200)
    assert not error.retryable
    assert not error.ends_target
    assert "which is not a reply" in str(error)


FLOATS = st.floats(allow_nan=True, allow_infinity=True) | st.floats(width=32) | st.sampled_from([3.4028235e38, 1e-46])


@pytest.mark.slow
@bounded(300)
@given(st.lists(FLOATS, max_size=20))
def test_both_encodings_give_the_same_vector_or_none(values: list[float]) -> None:
    def made(make: Callable[[], bytes]) -> bytes | None:
        try:
            return make()
        except ValidationError:
            return None

    vector = made(lambda: pack_vector(values))
    rounded = as_32_bits(values)
    usable = bool(values) and all(map(math.isfinite, rounded))
    assert (vector is not None) == usable
    if vector is not None:
        assert numbers(vector) == rounded
    text = base64.b64encode(struct.pack(f"<{len(values)}f", *rounded)).decode()
    assert made(lambda: read_vector(text)) == vector


# Failures.


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("fault", "retryable", "pressure", "ends"),
    [
        (Fault("status", status=429, retry_after=7), True, "rate", False),
        (Fault("status", status=500), True, None, False),
        (Fault("status", status=503), True, "overload", False),
        (Fault("status", status=400), False, None, False),
        (Fault("status", status=401), False, None, True),
        (Fault("status", status=404), False, None, True),
    ],
    ids=["429", "500", "503", "400", "401", "404"],
)
def test_failures_are_told_apart_as_everywhere(
    api: str, fault: Fault, retryable: bool, pressure: str | None, ends: bool
) -> None:
    with FakeServer(faults=[fault]) as server:
        error = failure(target_of(api, server))
        assert embedded(target_of(api, server), "A text").vector
    assert (error.status, error.retryable, error.pressure, error.ends_target) == (
        fault.status,
        retryable,
        pressure,
        ends,
    )
    assert error.retry_after_s == fault.retry_after


@pytest.mark.parametrize("kind", ["reset_before_headers", "reset_in_body", "truncated_json", "invalid_json"])
def test_answers_that_break_off_are_errors(kind: Any) -> None:
    with FakeServer(faults=[Fault(kind)]) as server:
        error = failure(target_of("openai", server))
    assert error.retryable == kind.startswith("reset")


def test_an_error_inside_an_answer_of_status_200_is_told() -> None:
    inside = {"error": {"code": 429, "message": "Slow down, please."}}
    with FakeServer(faults=[ok(inside)]) as server:
        error = failure(target_of("groq", server))
    assert (error.retryable, error.pressure, "Slow down" in str(error)) == (True, "rate", True)


# Scripts.

SCRIPTED = {"provider": "scripted", "embeddings": {"cat": [1, 0], "Zürich\n": [0.25, -0.5], "*": [0, 1]}}


@pytest.mark.parametrize(
    ("text", "expected"), [("cat", [1, 0]), ("Zürich\n", [0.25, -0.5]), ("Cat", [0, 1]), ("*", [0, 1])]
)
def test_a_script_has_vectors_for_texts_and_one_for_the_rest(text: str, expected: list[float]) -> None:
    reply = embedded(SCRIPTED, text)
    assert (reply.text, numbers(reply.vector), reply.usage.total_tokens) == ("", expected, 0)


@pytest.mark.parametrize("embeddings", [{"embeddings": {"cat": [1, 0]}}, {"embeddings": {}}, {}])
def test_a_text_that_a_script_does_not_have_is_named(embeddings: Raw) -> None:
    error = failure({"provider": "scripted", "replies": ["Hello"], **embeddings}, "a dog")
    assert "`meaning` has no vector for 'a dog'" in str(error)
    assert len(str(failure({"provider": "scripted", **embeddings}, "dog " * 10_000))) < 300


@pytest.mark.parametrize("vector", [[], ["1"], [True], [math.nan], [math.inf], [1e39], [10**400], "1, 2", 1, {"a": 1}])
def test_a_vector_of_a_script_that_is_none_is_refused(vector: Any) -> None:
    error = failure({"provider": "scripted", "embeddings": {"*": vector}}, "a dog")
    assert "has a vector for 'a dog' that is not valid" in str(error)


# The fake servers.


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_texts_with_the_same_words_are_near_each_other(lab: Lab, api: str) -> None:
    texts = ["The cat sat on the mat", "the MAT sat on the cat!", "A cat sat there", "Stocks fell sharply today"]
    vectors = [CLIENTS[api](lab, text, {}) for text in texts]
    assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-6) for vector in vectors)
    same, near, far = (sum(map(float.__mul__, vectors[0], one)) for one in vectors[1:])
    assert math.isclose(same, 1, abs_tol=1e-6)
    assert far < 0.3 < near < 0.95


@pytest.mark.slow
def test_the_clients_read_both_encodings(lab: Lab) -> None:
    for client, model in (("openai", "m"), ("azure", "deployed"), ("azure_v1", "deployed")):
        embeddings = lab.client(client).embeddings
        plain = embeddings.create(model=model, input="A text", encoding_format="float").data[0].embedding
        usual = embeddings.create(model=model, input="A text").data[0].embedding
        assert plain == embed("A text")
        assert usual == as_32_bits(plain)


@pytest.mark.slow
def test_several_texts_at_once_have_a_vector_each(lab: Lab) -> None:
    texts = ["one", "two words", "three"]
    answer = lab.client("gemini").models.embed_content(model="gemini-embedding-001", contents=texts)
    assert [one.values for one in answer.embeddings] == [embed(text) for text in texts]
    assert answer.usage_metadata.prompt_token_count == 4
    answer = lab.client("azure").embeddings.create(model="deployed", input=texts)
    assert [one.embedding for one in answer.data] == [as_32_bits(embed(text)) for text in texts]
    assert (answer.model, answer.usage.prompt_tokens) == ("deployed", 4)


@pytest.mark.parametrize("api", APIS)
def test_a_function_of_one_s_own_makes_the_vectors(api: str) -> None:
    with FakeServer(embed=lambda text: (len(text), 0.5)) as server:
        assert numbers(embedded(target_of(api, server), "12345").vector) == [5, 0.5]


def test_a_mistake_in_such_a_function_is_told_to_both_sides() -> None:
    def broken(_: str) -> list[float]:
        raise LookupError("no such word")

    with pytest.raises(LookupError, match="no such word"), FakeServer(embed=broken) as server:
        error = failure(target_of("openai", server))
        assert (error.status, "no such word" in str(error)) == (500, True)


def test_a_script_has_no_say_in_embeddings() -> None:
    def reply(_: Received) -> str:
        raise AssertionError

    with FakeServer(reply) as server:
        assert [bool(embedded(target_of(api, server), "A text").vector) for api in APIS] == [True] * len(APIS)


@pytest.mark.parametrize("api", APIS)
def test_another_key_is_refused(api: str) -> None:
    with FakeServer(key="another") as server:
        assert failure(target_of(api, server)).ends_target


def gemini_request(**more: Any) -> Raw:
    return {"model": "models/m", "content": {"parts": [{"text": "A text"}]}, **more}


REFUSALS: dict[str, tuple[str, Any, str]] = {
    "no object": ("/v1beta/models/m:batchEmbedContents", [], "Invalid JSON payload"),
    "no requests": ("/v1beta/models/m:batchEmbedContents", {}, "requests is not specified"),
    "too many": (
        "/v1beta/models/m:batchEmbedContents",
        {"requests": [gemini_request()] * 101},
        "at most 100 requests",
    ),
    "another model": (
        "/v1beta/models/m:batchEmbedContents",
        {"requests": [gemini_request(model="models/n")]},
        "model must match",
    ),
    "unknown in the batch": ("/v1beta/models/m:batchEmbedContents", {"requests": [], "model": "m"}, "Unknown name"),
    "unknown in a request": (
        "/v1beta/models/m:batchEmbedContents",
        {"requests": [gemini_request(dimensions=3)]},
        "Unknown name \"dimensions\" at 'requests[0]'",
    ),
    "no content": (
        "/v1beta/models/m:batchEmbedContents",
        {"requests": [{"model": "models/m"}]},
        "requests[0].content: content is not specified",
    ),
    "an empty text": (
        "/v1beta/models/m:batchEmbedContents",
        {"requests": [gemini_request(content={"parts": [{"text": ""}]})]},
        "content is not specified",
    ),
    "no size": (
        "/v1beta/models/m:batchEmbedContents",
        {"requests": [gemini_request(output_dimensionality=0)]},
        "must be above 0",
    ),
    "one without content": ("/v1/models/m:embedContent", {"taskType": "CLUSTERING"}, "content is not specified"),
    "azure without a version": ("/openai/deployments/d/embeddings", {"input": "A text"}, "Resource not found"),
    "azure without input": ("/openai/deployments/d/embeddings?api-version=1", {}, "'input'"),
    "azure with more": (
        "/openai/deployments/d/embeddings?api-version=1",
        {"input": "A text", "inputs": "B"},
        "Unknown parameter: 'inputs'",
    ),
}


def post(server: FakeServer, path: str, body: Any) -> tuple[int, Any]:
    import http.client

    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=30)
    try:
        connection.request("POST", path, json.dumps(body))
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@pytest.mark.parametrize("name", REFUSALS)
def test_what_the_real_api_refuses_is_refused(lab: Lab, name: str) -> None:
    path, body, said = REFUSALS[name]
    status, answer = post(lab.server, path, body)
    assert (status, said in answer["error"]["message"]) == (404 if "version" in name else 400, True), answer


def test_gemini_embeds_a_single_text_too(lab: Lab) -> None:
    status, answer = post(lab.server, "/v1beta/models/m:embedContent", gemini_request(outputDimensionality=8))
    assert (status, answer["embedding"]["values"]) == (200, embed("A text", 8))


def test_azure_needs_no_model_in_the_body_of_a_deployment(lab: Lab) -> None:
    status, answer = post(lab.server, "/openai/deployments/mine/embeddings?api-version=1", {"input": "A text"})
    assert (status, answer["model"], answer["data"][0]["embedding"]) == (200, "mine", embed("A text"))


@pytest.mark.slow
def test_the_fields_known_here_are_all_that_the_client_knows() -> None:
    """A client that learns a new field makes this test fail, and not the tests of users who use the field."""
    from google.genai import types

    of_vertex = {"mime_type", "auto_truncate", "document_ocr", "audio_track_extraction"}
    known = set(types.EmbedContentConfig.model_fields) - of_vertex - {"http_options"}
    camel = {"task_type": "taskType", "title": "title", "output_dimensionality": "outputDimensionality"}
    assert {camel[name] for name in known} | {"model", "content"} == EMBED_FIELDS
