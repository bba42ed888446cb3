"""`python`: a function of the user's answers. `call: module:function`, sync or async, is given the `Request`.

It returns a text, a mapping with `text` and token counts, or a `Reply`. A sync function runs in a thread of its own,
so that it may block. The module is looked for in the suite's folder and in the project's root.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from rejoinder.model import NO_USAGE, Reply, Request, Target, Usage, estimate_usage
from rejoinder.providers.base import ProviderError


class PythonProvider:
    outside = True
    limiter = None

    def __init__(self, target: Target, folders: tuple[str, ...]) -> None:
        self._name: str = target.settings["call"]
        self._function = load_function(self._name, folders)
        self._is_async = inspect.iscoroutinefunction(self._function)

    async def reply(self, request: Request) -> Reply:
        try:
            answer = await (self._function(request) if self._is_async else _in_thread(self._function, request))
            if inspect.isawaitable(answer):  # an object whose call is async looks like a plain function
                answer = await answer
        except ProviderError:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # it is we who are stopped
            raise ProviderError(f"`{self._name}` was cancelled from within", type="python") from None
        except (Exception, SystemExit) as error:  # the user's code must not end the run, even if it wants to
            message = f"`{self._name}` raised {type(error).__name__}: {error}"
            raise ProviderError(message, type="python", retryable=bool(getattr(error, "retryable", False))) from error
        return self._read(answer, request)

    async def close(self) -> None:
        pass

    def _read(self, answer: Any, request: Request) -> Reply:
        if isinstance(answer, Reply):
            reply = answer
        else:
            fields: dict[str, Any] = answer if isinstance(answer, dict) else {"text": answer}
            reply = Reply(fields.get("text", answer), cost=fields.get("cost"))
            if "output_tokens" in fields:
                counts = (fields.get(f"{kind}_tokens", 0) for kind in ("input", "output", "reasoning"))
                reply = structs.replace(reply, usage=Usage(*counts))
        self._refuse_nonsense(reply, answer)
        if reply.usage == NO_USAGE:
            sent = sum(len(message.content) for message in request.messages)
            return structs.replace(reply, usage=estimate_usage(sent, len(reply.text)))
        return reply

    def _refuse_nonsense(self, reply: Reply, answer: Any) -> None:
        """An answer that cannot be recorded is refused here, where the function that gave it can be named."""
        if not isinstance(reply.text, str):
            wanted = "a text, a mapping with `text`, or a Reply is wanted"
            raise self._bad(f"returned {type(answer).__name__}; {wanted}")
        usage = reply.usage
        for name in ("input_tokens", "output_tokens", "reasoning_tokens"):
            count = getattr(usage, name)
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise self._bad(f"returned {count!r} as `{name}`; a whole number from 0 on is wanted")
        if reply.cost is not None and (isinstance(reply.cost, bool) or not isinstance(reply.cost, int | float)):
            raise self._bad(f"returned {reply.cost!r} as `cost`; a number is wanted")
        try:
            msgspec.convert(msgspec.json.decode(msgspec.json.encode(reply)), Reply)
        except (msgspec.MsgspecError, UnicodeError, TypeError) as error:
            raise self._bad(f"returned a reply that cannot be recorded: {error}") from None

    def _bad(self, what: str) -> ProviderError:
        return ProviderError(f"`{self._name}` {what}", type="python")


async def _in_thread(function: Callable[[Request], Any], request: Request) -> Any:
    """Call a function that may block. Its thread does not keep the program from ending, however long it hangs."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def tell(value: Any, error: BaseException | None) -> None:
        if not answer.done():
            answer.set_exception(error) if error is not None else answer.set_result(value)

    def work() -> None:
        value, error = None, None
        try:
            value = function(request)
        except BaseException as raised:
            error = RuntimeError("StopIteration") if isinstance(raised, StopIteration) else raised
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(tell, value, error)

    threading.Thread(target=work, name="rejoinder-python", daemon=True).start()
    return await answer


def load_function(name: str, folders: tuple[str, ...]) -> Callable[[Request], Any]:
    module_name, _, function_name = name.partition(":")
    _put_first(folders)
    _forget_namesake(module_name.partition(".")[0], folders)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise ProviderError(f"the module of `{name}` cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ProviderError(f"the module `{module_name}` has no function `{function_name}`")
    return function


def _put_first(folders: tuple[str, ...]) -> None:
    for folder in reversed(folders):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)


def _forget_namesake(name: str, folders: tuple[str, ...]) -> None:
    """Let a module of this suite's folder be imported although another suite's of the same name was."""
    known = getattr(sys.modules.get(name), "__file__", None)
    here = next((file for folder in folders for file in _files_of(folder, name) if file.is_file()), None)
    if known is not None and here is not None and Path(known) != here:
        for module in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
            del sys.modules[module]


def _files_of(folder: str, name: str) -> tuple[Path, Path]:
    return Path(folder) / f"{name}.py", Path(folder) / name / "__init__.py"
