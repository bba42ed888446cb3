"""`python`: a function of the user's answers. `call: module:function`, sync or async, is given the `Request`.

It returns a text, a mapping with `text` and token counts, or a `Reply`. A sync function runs in a thread of its own,
so that it may block. The module is looked for in the suite's folder and in the project's root.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec import structs

from rejoinder.model import NO_USAGE, Reply, Request, Target, Usage, estimate_usage
from rejoinder.providers.base import ProviderError


class PythonProvider:
    def __init__(self, target: Target, folders: tuple[str, ...], workers: int) -> None:
        self._name: str = target.settings["call"]
        self._function = load_function(self._name, folders)
        self._is_async = inspect.iscoroutinefunction(self._function)
        self._threads = None if self._is_async else ThreadPoolExecutor(workers, thread_name_prefix="rejoinder-python")

    async def reply(self, request: Request) -> Reply:
        try:
            if self._is_async:
                answer = await self._function(request)
            else:
                loop = asyncio.get_running_loop()
                answer = await loop.run_in_executor(self._threads, self._function, request)
        except ProviderError:
            raise
        except Exception as error:
            message = f"`{self._name}` raised {type(error).__name__}: {error}"
            raise ProviderError(message, type="python", retryable=bool(getattr(error, "retryable", False))) from error
        return self._read(answer, request)

    async def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _read(self, answer: Any, request: Request) -> Reply:
        if isinstance(answer, Reply) and answer.usage != NO_USAGE:
            return answer
        if isinstance(answer, Reply):
            return structs.replace(answer, usage=_estimate(request, answer.text))
        fields: dict[str, Any] = answer if isinstance(answer, dict) else {"text": answer}
        text = fields.get("text")
        if not isinstance(text, str):
            kind = type(answer).__name__
            message = f"`{self._name}` returned {kind}; a text, a mapping with `text`, or a Reply is wanted"
            raise ProviderError(message, type="python")
        estimate = _estimate(request, text)
        counted = "output_tokens" in fields
        return Reply(
            text,
            Usage(
                fields.get("input_tokens", estimate.input_tokens),
                fields.get("output_tokens", estimate.output_tokens),
                fields.get("reasoning_tokens", 0),
                approximate=not counted,
            ),
            cost=fields.get("cost"),
        )


def _estimate(request: Request, text: str) -> Usage:
    return estimate_usage(sum(len(message.content) for message in request.messages), len(text))


def load_function(name: str, folders: tuple[str, ...]) -> Callable[[Request], Any]:
    module_name, _, function_name = name.partition(":")
    for folder in reversed(folders):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ProviderError(f"the module of `{name}` cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ProviderError(f"the module `{module_name}` has no function `{function_name}`")
    return function
