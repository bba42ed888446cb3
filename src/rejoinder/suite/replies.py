"""The part of a reply that is checked: `reply` of a suite, a case or a planned turn."""

from __future__ import annotations

from typing import Any

from rejoinder.model import PythonCheck
from rejoinder.model.checks import ReplyPart
from rejoinder.suite.checks import Texts, compile_path, compile_pattern


def read_reply(value: dict[str, Any] | str, at: str, texts: Texts) -> ReplyPart:
    """A text is `whole`: the whole reply."""
    if isinstance(value, str):
        return ReplyPart(at=at)
    pattern, path = (texts.text(value[key], f"{at}.{key}") if key in value else None for key in ("regex", "json_path"))
    if pattern is not None:
        compile_pattern(pattern, f"{at}.regex", texts)
    if path is not None:
        compile_path(path, f"{at}.json_path", texts)
    function = None
    if "python" in value:
        place = f"{at}.python"
        function = PythonCheck(call=texts.text(value["python"], place), at=place)
    return ReplyPart(at=at, strip=tuple(value.get("strip", ())), pattern=pattern, path=path, function=function)
