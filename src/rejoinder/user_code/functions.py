"""The user's functions, called in this process: loaded, called in a thread if they may block, and prevented from ending
the run. The module is looked for in the suite's folder and in the project's root.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rejoinder.user_code.imports import arrange_imports, import_lock, is_below, module_files
from rejoinder.user_code.output import redirect_import_output

if TYPE_CHECKING:
    import asyncio

_STANDARD = str(Path(os.__file__).parent) + os.sep
_OURS = str(Path(__file__).parents[1]) + os.sep


class FunctionFault(Exception):
    """A function cannot be found, or did not return. `error` is the exception that it raised, if any."""

    def __init__(self, message: str, error: BaseException | None = None) -> None:
        super().__init__(recordable(message))
        self.error = error

    @property
    def traceback(self) -> str:
        """The traceback of the user's code, without our frames."""
        from traceback import TracebackException

        if self.error is None:
            return ""
        if isinstance(self.error, ModuleNotFoundError) and not raised_at(self.error, ()):
            return ""  # no code of the user's has run yet
        inner = self.error.__traceback__
        while inner is not None and _is_ours(inner.tb_frame.f_code.co_filename):
            inner = inner.tb_next
        return recordable("".join(TracebackException(type(self.error), self.error, inner).format()))

    @property
    def identity(self) -> tuple[object, ...]:
        """The same for errors of one type raised at the same place, whatever their messages."""
        return (type(self.error), *_frames(self.error)) if self.error is not None else (str(self),)


def raised_at(error: BaseException, folders: tuple[str, ...]) -> str:
    """The place that raised an error, as an addition to its message: ` (bot.py:14 in reply)`.

    It is the last place inside the folders, relative to the last of them; without one, the last place in a package.
    """
    frames = _frames(error)
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno or 1, "<module>"))
    own = [frame for frame in frames if is_below(Path(frame[0]), folders)]
    others = [frame for frame in frames if not _is_ours(frame[0]) and not _is_standard(frame[0])]
    if not own and not others:
        return ""
    file, line, function = (own or others)[-1]
    within = "" if function == "<module>" else f" in {function}"
    return f" ({_shown(file, folders)}:{line}{within})"


def _frames(error: BaseException) -> list[tuple[str, int, str]]:
    frames: list[tuple[str, int, str]] = []
    inner = error.__traceback__
    while inner is not None:
        code = inner.tb_frame.f_code
        frames.append((code.co_filename, inner.tb_lineno, code.co_name))
        inner = inner.tb_next
    return frames


def _is_ours(file: str) -> bool:
    """Whether it is one of our files, or part of the import system."""
    return file.startswith((_OURS, f"{_STANDARD}importlib{os.sep}", "<frozen importlib"))


def _is_standard(file: str) -> bool:
    return file.startswith((_STANDARD, "<frozen")) and "site-packages" not in file


def _shown(file: str, folders: tuple[str, ...]) -> str:
    for folder in reversed(folders):
        if Path(file).is_relative_to(folder):
            return str(Path(file).relative_to(folder))
    return file.rpartition(f"site-packages{os.sep}")[2]


def in_words(error: BaseException) -> str:
    """An exception's type and message, even if it cannot be printed."""
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:
        return type(error).__name__


def recordable(text: str) -> str:
    """A text without unpaired surrogates, which no file can hold; code that reads binary data may produce them."""
    return text.encode("utf-8", "backslashreplace").decode()


async def call_function(
    name: str, folders: tuple[str, ...], function: Callable[..., Any], /, *values: Any, **named: Any
) -> Any:
    """The result of a function of these folders, sync or async. Raises FunctionFault if it raises anything."""
    import asyncio
    import inspect

    try:
        if inspect.iscoroutinefunction(function):
            answer = await _in_task(function(*values, **named))
        else:
            answer = await _in_thread(lambda: function(*values, **named))
        if inspect.isawaitable(answer):  # an object whose call is async looks like a plain function
            answer = await _in_task(answer)
        return answer
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # the run is stopped
        raise FunctionFault(f"`{name}` was cancelled from within") from None
    except (FunctionFault, GeneratorExit):
        raise
    except BaseException as error:
        raise FunctionFault(f"`{name}` raised {in_words(error)}{raised_at(error, folders)}", error) from error


async def _in_task(answer: Awaitable[Any]) -> Any:
    """Await in a separate task: a function that cancels its task cancels itself, not the run."""

    import asyncio

    async def work() -> tuple[Any, BaseException | None]:
        try:
            return await answer, None
        except (SystemExit, KeyboardInterrupt) as error:  # out of a task they would end the loop
            return None, error

    try:
        value, error = await asyncio.ensure_future(work())
    finally:
        if isinstance(answer, Coroutine):
            answer.close()  # it never began where the task was cancelled before its first step
    if error is not None:
        raise error
    return value


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Call a function that may block. Its thread does not keep the program from ending, even if it hangs."""
    import asyncio

    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not answer.done():
            answer.set_exception(error) if error is not None else answer.set_result(value)

    def work() -> None:
        value, error = None, None
        try:
            value = function()
        except BaseException as raised:
            # A coroutine cannot raise these, or takes them for its own end.
            special = isinstance(raised, StopIteration | GeneratorExit)
            instead = RuntimeError(type(raised).__name__).with_traceback(raised.__traceback__)
            error = instead if special else raised
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, name="rejoinder-python", daemon=True).start()
    return await answer


def load_function(name: str, folders: tuple[str, ...]) -> Callable[..., Any]:
    """Load `module:function`. Raises FunctionFault."""
    module_name, _, function_name = name.partition(":")
    try:
        with import_lock, redirect_import_output():
            arrange_imports(folders, module_name.partition(".")[0])
            module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise FunctionFault(_why_not_imported(name, folders, error), error) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise FunctionFault(f"the module `{module_name}` has no function `{function_name}`")
    return function


def load_file(path: Path, name: str, folders: tuple[str, ...] = ()) -> ModuleType:
    """A module loaded from its file, under a unique name; it may import others of the folders. Raises FunctionFault."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, path)
    with import_lock, redirect_import_output():
        try:
            if spec is None or spec.loader is None:
                raise ImportError("it is not a Python file")
            arrange_imports(folders)
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module  # dataclasses and their like look their module up there
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            sys.modules.pop(name, None)
            message = f"{path} cannot be imported: {_said(error, folders)}{raised_at(error, folders)}"
            raise FunctionFault(message, error) from error
    return module


def _why_not_imported(name: str, folders: tuple[str, ...], error: BaseException) -> str:
    module = name.partition(":")[0]
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
        return f"`{name}` is not there: {_said(error, folders)}"
    return f"the module of `{name}` cannot be imported: {_said(error, folders)}{raised_at(error, folders)}"


def _said(error: BaseException, folders: tuple[str, ...]) -> str:
    """The message of a failed import; for a missing module, a hint on its name."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"  # its place is said behind it
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return in_words(error)
    from difflib import get_close_matches

    from rejoinder.installing import pip_install

    places = " and ".join(dict.fromkeys(folders))
    near = get_close_matches(error.name, _modules_in(folders), n=1)
    package = error.name.partition(".")[0]
    install = f"if it is a package, install it with `{pip_install(package)}`"
    advice = f"did you mean `{near[0]}`?" if near else install
    return f"there is no module `{error.name}` in {places}, nor among the packages of {sys.executable}; {advice}"


def _modules_in(folders: tuple[str, ...]) -> list[str]:
    """The names of modules and packages in folders."""
    names: list[str] = []
    for folder in folders:
        with contextlib.suppress(OSError):
            entries = list(Path(folder).iterdir())
            names += [one.stem for one in entries if one.suffix == ".py"]
            names += [one.name for one in entries if (one / "__init__.py").is_file()]
    return names


def source_of(name: str, folders: tuple[str, ...]) -> bytes:
    """The current file of the module of `module:function`, found without running it; empty if the folders do not have
    it."""
    place = name.partition(":")[0].replace(".", "/")
    for file in (file for folder in folders for file in module_files(folder, place)):
        with contextlib.suppress(OSError, ValueError):
            return file.read_bytes()
    return b""
