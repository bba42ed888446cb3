"""Functions of the user's own, called in this process: found, called in a thread where they may block, and kept from
ending the run, even if they want to. The module is looked for in the suite's folder and in the project's root."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


class FunctionFault(Exception):
    """A function cannot be found, or did not return. `error` is what it raised, where it raised something."""

    def __init__(self, message: str, error: BaseException | None = None) -> None:
        super().__init__(recordable(message))
        self.error = error


def in_words(error: BaseException) -> str:
    """What an exception says, even one that cannot be printed."""
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:
        return type(error).__name__


def recordable(text: str) -> str:
    """A text without the half characters that no file can hold; whoever read rubbish may well quote it."""
    return text.encode("utf-8", "backslashreplace").decode()


async def call_function(name: str, function: Callable[..., Any], /, *values: Any, **named: Any) -> Any:
    """What a function returns, sync or async. Raises FunctionFault where it raises anything at all."""
    try:
        if inspect.iscoroutinefunction(function):
            answer = await function(*values, **named)
        else:
            answer = await _in_thread(lambda: function(*values, **named))
        if inspect.isawaitable(answer):  # an object whose call is async looks like a plain function
            answer = await answer
        return answer
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # it is we who are stopped
        raise FunctionFault(f"`{name}` was cancelled from within") from None
    except FunctionFault:
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise FunctionFault(f"`{name}` raised {in_words(error)}", error) from error


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Call a function that may block. Its thread does not keep the program from ending, however long it hangs."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def tell(value: Any, error: BaseException | None) -> None:
        if not answer.done():
            answer.set_exception(error) if error is not None else answer.set_result(value)

    def work() -> None:
        value, error = None, None
        try:
            value = function()
        except BaseException as raised:
            # A coroutine cannot raise these, or takes them for its own end.
            special = isinstance(raised, StopIteration | GeneratorExit)
            error = RuntimeError(type(raised).__name__) if special else raised
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(tell, value, error)

    threading.Thread(target=work, name="rejoinder-python", daemon=True).start()
    return await answer


def load_function(name: str, folders: tuple[str, ...]) -> Callable[..., Any]:
    """`module:function`. Raises FunctionFault."""
    module_name, _, function_name = name.partition(":")
    _put_first(folders)
    _forget_namesake(module_name.partition(".")[0], folders)
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise FunctionFault(f"the module of `{name}` cannot be imported: {in_words(error)}", error) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise FunctionFault(f"the module `{module_name}` has no function `{function_name}`")
    return function


def load_file(path: Path, name: str, folders: tuple[str, ...] = ()) -> ModuleType:
    """A module by its file, under a name that no other has; it may import others of the folders. Raises
    FunctionFault."""
    spec = importlib.util.spec_from_file_location(name, path)
    _put_first(folders)
    try:
        if spec is None or spec.loader is None:
            raise ImportError("it is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses and their like look their module up there
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        raise FunctionFault(f"{path} cannot be imported: {in_words(error)}", error) from error
    return module


def source_of(name: str, folders: tuple[str, ...]) -> bytes:
    """The file of the module of `module:function` as it is now, found without running it; empty where the folders do
    not have it."""
    place = name.partition(":")[0].replace(".", "/")
    for file in (file for folder in folders for file in _files_of(folder, place)):
        with contextlib.suppress(OSError, ValueError):
            return file.read_bytes()
    return b""


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
