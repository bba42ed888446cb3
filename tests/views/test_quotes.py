"""Quotes of replies: in one line, from a few words before what they are about, without the signs of Markdown."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rejoinder.views.quotes import quote_of, window
from tests.kit import bounded

REPLY = """## How to return your shoes

You have **14 days**. There are three ways:

1. Bring them to a *store* with the receipt
2. Send them by post, see [the label page](https://shop.example/labels)

| Way | Cost | Days |
|---|---:|---:|
| Store | free | 0 |

```python
days = 14  # **not** more
```

> Opened `boxes` are not taken_back.
"""
QUOTES = {
    "days": "… You have 14 days. There are three ways: 1. Bring …",
    "store": "… them to a store with the receipt 2. Send them by …",
    "label": "… post, see the label page Way Cost Days Store …",
    "Cost": "… Way Cost Days Store free 0 days = 14 # **not** …",
    "more": "… 14 # **not** more Opened boxes are not …",
    "boxes": "… Opened boxes are not taken_back.",
    "https": "… label page](https://shop.example/labels) Way …",
}


def place_of(part: str, reply: str = REPLY) -> tuple[int, int]:
    return reply.index(part), reply.index(part) + len(part)


@pytest.mark.parametrize("part", QUOTES)
def test_a_quote_has_the_words_around_a_place_without_signs(part: str) -> None:
    said, span = quote_of(REPLY, (place_of(part),), 50)
    assert said == QUOTES[part]
    assert span is not None and said[slice(*span)] == part


@pytest.mark.parametrize(
    ("reply", "quote"),
    [
        ("", ""),
        ("# Yes\n\nIt **is** _so_ and ~~not~~ `so`.", "Yes It is so and not so."),
        ("- one\n* two\n> three\n---\n| a | b |", "one two three a b"),
        ("**重要。**次 ***both*** **a *b* c**", "重要。次 both a b c"),
        ("2 * 3 * 4, a*b*c, snake_case_name, 5 ** 6, *open", "2 * 3 * 4, a*b*c, snake_case_name, 5 ** 6, *open"),
        ("![a cat](cat.png) and [x](y) [no] (link)", "a cat and x [no] (link)"),
        ("```py\n# all **raw**\n```\n# head", "# all **raw** head"),
    ],
)
def test_signs_of_markdown_are_left_out(reply: str, quote: str) -> None:
    assert quote_of(reply, (), 80) == (quote, None)


def test_a_quote_begins_with_a_sentence_or_at_the_beginning_if_that_is_near() -> None:
    assert quote_of("# Returns\n\nYou have **14 days**.", ((25, 29),), 160) == ("… You have 14 days.", (14, 18))
    assert quote_of("The total is 139.5 francs.", ((13, 18),), 160) == ("The total is 139.5 francs.", (13, 18))
    long = f"{'word ' * 40}and the total is 139.5 francs."
    said, span = quote_of(long, (place_of("139.5", long),), 160)
    assert said.startswith("… ") and span is not None and span[0] <= 42


def test_a_place_that_no_reply_has_is_passed_over() -> None:
    assert quote_of("Yes, a voucher.", ((0, 90), (7, 14)), 60) == ("Yes, a voucher.", (7, 14))
    assert quote_of("Yes.", ((9, 12),), 60) == ("Yes.", None)


TEXTS = st.text(alphabet="ab *_`~#>|[]()-\n .1é", max_size=200)


@bounded(300)
@given(TEXTS, st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200))), st.integers(9, 90))
def test_a_quote_is_short_and_has_its_place(reply: str, spans: list[tuple[int, int]], most: int) -> None:
    first = next(((low, high) for low, high in sorted(spans) if low < high <= len(reply)), None)
    said, span = quote_of(reply, spans, most)
    assert "\n" not in said and len(said) <= most + 4
    assert (span is None) == (first is None)
    if span is not None and first is not None:
        low, high = first
        assert said[slice(*span)].split() == reply[low : min(high, low + most)].split()
    start, end = window(reply, spans, most)
    assert 0 <= start <= end <= len(reply) and end - start <= most
    assert first is None or (start <= first[0] and end >= min(first[1], first[0] + most))


@pytest.mark.parametrize("sign", ["*", "**a", "`", "``` ", "[", "[a](", "_a ", "|", "> ", "- ", "\n#"])
def test_hostile_replies_are_quoted_at_once(sign: str) -> None:
    reply, began = sign * 20_000, time.perf_counter()
    for place in range(0, 19_000, 1_000):
        quote_of(reply, ((place, place + 1),), 160)
    assert time.perf_counter() - began < 2
