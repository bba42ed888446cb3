"""The words of the command line, for commands that propose the same again with a change."""

from __future__ import annotations

import click

GIVEN = "rejoinder.given"
"""Where a context keeps them."""


def given_words() -> list[str]:
    """Those after `rejoinder`."""
    context = click.get_current_context(silent=True)
    return [] if context is None else list(context.meta.get(GIVEN, ()))
