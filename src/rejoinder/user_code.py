"""Functions of the user's own, called in this process: found, called in a thread where they may block, and kept from
ending the run, even if they want to. The module is looked for in the suite's folder and in the project's root."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO


class FunctionFault(Exception):
    """A function cannot be found, or did not return. `error` is what it raised, where it raised something."""

    def __init__(self, message: str, error: BaseException | None = None) -> None:
        super().__init__(recordable(message))
        self.error = error

    @property
    def traceback(self) -> str:
        """The whole traceback of the user's code, without our own frames that led to it."""
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
        """Equal for errors of one type that were raised at the same place, whatever they say."""
        return (type(self.error), *_frames(self.error)) if self.error is not None else (str(self),)


def raised_at(error: BaseException, folders: tuple[str, ...]) -> str:
    """Where an error was raised, to stand behind its words: ` (bot.py:14 in reply)`.

    It is the last place inside the folders, as seen from the last of them; without one, the last place in a package.
    """
    frames = _frames(error)
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno or 1, "<module>"))
    own = [frame for frame in frames if _is_below(Path(frame[0]), folders)]
    others = [frame for frame in frames if not _is_ours(frame[0]) and not _is_standard(frame[0])]
    if not own and not others:
        return ""
    file, line, function = (own or others)[-1]
    within = "" if function == "<module>" else f" in {function}"
    return f" ({_shown(file, folders)}:{line}{within})"


_STANDARD = str(Path(os.__file__).parent) + os.sep
_OURS = str(Path(__file__).parent) + os.sep


def _frames(error: BaseException) -> list[tuple[str, int, str]]:
    frames: list[tuple[str, int, str]] = []
    inner = error.__traceback__
    while inner is not None:
        code = inner.tb_frame.f_code
        frames.append((code.co_filename, inner.tb_lineno, code.co_name))
        inner = inner.tb_next
    return frames


def _is_ours(file: str) -> bool:
    """Is it a file of ours, or of the machinery of imports?"""
    return file.startswith((_OURS, f"{_STANDARD}importlib{os.sep}", "<frozen importlib"))


def _is_standard(file: str) -> bool:
    return file.startswith((_STANDARD, "<frozen")) and "site-packages" not in file


def _shown(file: str, folders: tuple[str, ...]) -> str:
    for folder in reversed(folders):
        if Path(file).is_relative_to(folder):
            return str(Path(file).relative_to(folder))
    return file.rpartition(f"site-packages{os.sep}")[2]


def in_words(error: BaseException) -> str:
    """What an exception says, even one that cannot be printed."""
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:
        return type(error).__name__


def recordable(text: str) -> str:
    """A text without the half characters that no file can hold; whoever read rubbish may well quote it."""
    return text.encode("utf-8", "backslashreplace").decode()


async def call_function(
    name: str, folders: tuple[str, ...], function: Callable[..., Any], /, *values: Any, **named: Any
) -> Any:
    """What a function of these folders returns, sync or async. Raises FunctionFault where it raises anything at all."""
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
            raise  # it is we who are stopped
        raise FunctionFault(f"`{name}` was cancelled from within") from None
    except FunctionFault:
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise FunctionFault(f"`{name}` raised {in_words(error)}{raised_at(error, folders)}", error) from error


async def _in_task(answer: Awaitable[Any]) -> Any:
    """Await in a task of its own: a function that cancels the task it is in cancels itself, and not the run."""

    async def work() -> tuple[Any, BaseException | None]:
        try:
            return await answer, None
        except (SystemExit, KeyboardInterrupt) as error:  # out of a task they would end the loop
            return None, error

    value, error = await asyncio.ensure_future(work())
    if error is not None:
        raise error
    return value


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
            instead = RuntimeError(type(raised).__name__).with_traceback(raised.__traceback__)
            error = instead if special else raised
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(tell, value, error)

    threading.Thread(target=work, name="rejoinder-python", daemon=True).start()
    return await answer


def load_function(name: str, folders: tuple[str, ...]) -> Callable[..., Any]:
    """`module:function`. Raises FunctionFault."""
    module_name, _, function_name = name.partition(":")
    try:
        with _importing, _import_kept_clean():
            _arrange(folders, module_name.partition(".")[0])
            module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise FunctionFault(_why_not_imported(name, folders, error), error) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise FunctionFault(f"the module `{module_name}` has no function `{function_name}`")
    return function


def load_file(path: Path, name: str, folders: tuple[str, ...] = ()) -> ModuleType:
    """A module by its file, under a name that no other has; it may import others of the folders. Raises
    FunctionFault."""
    spec = importlib.util.spec_from_file_location(name, path)
    with _importing, _import_kept_clean():
        try:
            if spec is None or spec.loader is None:
                raise ImportError("it is no Python file")
            _arrange(folders)
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
    """What an import says; of a module that is missing, where it was looked for and what may be meant."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"  # its place is said behind it
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return in_words(error)
    from difflib import get_close_matches

    places = " and ".join(dict.fromkeys(folders))
    near = get_close_matches(error.name, _modules_in(folders), n=1)
    package = error.name.partition(".")[0]
    install = f"if it is a package, install it with `{sys.executable} -m pip install {package}`"
    advice = f"did you mean `{near[0]}`?" if near else install
    return f"there is no module `{error.name}` in {places}, nor among the packages of {sys.executable}; {advice}"


def _modules_in(folders: tuple[str, ...]) -> list[str]:
    """The modules and packages that lie in folders."""
    names: list[str] = []
    for folder in folders:
        with contextlib.suppress(OSError):
            entries = list(Path(folder).iterdir())
            names += [one.stem for one in entries if one.suffix == ".py"]
            names += [one.name for one in entries if (one / "__init__.py").is_file()]
    return names


def source_of(name: str, folders: tuple[str, ...]) -> bytes:
    """The file of the module of `module:function` as it is now, found without running it; empty where the folders do
    not have it."""
    place = name.partition(":")[0].replace(".", "/")
    for file in (file for folder in folders for file in _files_of(folder, place)):
        with contextlib.suppress(OSError, ValueError):
            return file.read_bytes()
    return b""


# Standard output is for results. What the user's own code prints goes to standard error, also what the programs print
# that it starts: those write to the descriptor and not to `sys.stdout`.

_printing = threading.Lock()
_aside: list[contextlib.ExitStack] = []
"""How to undo it, and how many want it: runs in several threads share one standard output."""


@contextlib.contextmanager
def results_kept_clean() -> Generator[None]:
    """Let everything that is printed meanwhile go to standard error."""
    with _printing:
        _aside.append(_put_aside() if not _aside else contextlib.ExitStack())
    try:
        yield
    finally:
        with _printing:
            # The one that knows the way back stays until the last.
            _aside.pop().close()


def _import_kept_clean() -> contextlib.AbstractContextManager[None]:
    """In a run nothing more: an import that hangs must not keep the run's results from standard output."""
    return contextlib.nullcontext() if _aside else results_kept_clean()


def _put_aside() -> contextlib.ExitStack:
    with contextlib.ExitStack() as undo:
        stdout, stderr = sys.stdout, sys.stderr
        undo.enter_context(contextlib.redirect_stdout(stderr))
        if stdout is sys.__stdout__ and stdout is not None and stderr is not None:  # else it is captured: not ours
            with contextlib.suppress(OSError, ValueError):  # a stream that is closed, or has no number
                _move_descriptor(stdout, stderr, undo)
        return undo.pop_all()


def _move_descriptor(stdout: TextIO, stderr: TextIO, undo: contextlib.ExitStack) -> None:
    number, instead = stdout.fileno(), stderr.fileno()
    stdout.flush()
    kept = os.dup(number)
    undo.callback(os.close, kept)
    undo.callback(os.dup2, kept, number)
    os.dup2(instead, number)
    undo.callback(_flush, stdout)  # before the way back: somebody may have written to it nonetheless


def _flush(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):
        stream.flush()


# Imports go by `sys.path` and `sys.modules`, which all threads share, and suites may have modules of the same name. So
# imports take turns, and before each the modules of other suites make room. They are kept and not forgotten: what a
# suite has imported is imported once.

_importing = threading.RLock()
_seen: set[str] = set()
"""The folders of all suites so far."""
_shelf: dict[tuple[str, str], dict[str, ModuleType]] = {}
"""Modules that made room, with what is in them: by name and folder."""
_arranged_for: list[tuple[str, ...]] = [()]


def _arrange(folders: tuple[str, ...], wanted: str | None = None) -> None:
    """Let what is imported next come from these folders; `wanted` even where Python has a module of that name."""
    first = list(dict.fromkeys(folders))
    if sys.path[: len(first)] != first:
        # A new list: whoever goes through the old one, in another thread, must not miss an entry.
        sys.path = first + [entry for entry in sys.path if entry not in first]
    if _arranged_for[0] != folders:
        _seen.update(folders)
        for name in {name.partition(".")[0] for name in list(sys.modules) if _home_of(name) in _seen}:
            _make_room(name, folders)
        for name, folder in list(_shelf):
            if name not in sys.modules and _home_in(folders, name) == folder:
                sys.modules.update(_shelf.pop((name, folder)))
        _arranged_for[0] = folders
    if wanted is not None:
        _make_room(wanted, folders)


def _make_room(name: str, folders: tuple[str, ...]) -> None:
    """Put a module away that is in the place of one of these folders."""
    if name not in sys.modules or (here := _home_in(folders, name)) is None:
        return
    now = _home_of(name)
    if now == here:
        return
    inner = [one for one in list(sys.modules) if one == name or one.startswith(f"{name}.")]
    if now is None:  # a package without a file of its own is at home where its modules are
        now = next((home for one in inner if (home := _home_of(one)) is not None), here)
    if now != here:
        _shelf[name, now] = {one: sys.modules.pop(one) for one in inner}
        sys.modules.update(_shelf.pop((name, here), {}))


def _home_of(name: str) -> str | None:
    """The folder that a module, or the package that it is in, was imported from."""
    file = _own(sys.modules.get(name)).get("__file__")
    if not isinstance(file, str):
        return None
    above = 1 + name.count(".") + file.endswith(f"{os.sep}__init__.py")
    return file.rsplit(os.sep, above)[0]


def _own(module: object) -> dict[str, Any]:
    """What a module holds. It is not asked, because one that is loaded late would be loaded then; and what stands among
    the modules need not be one."""
    try:
        return object.__getattribute__(module, "__dict__") if isinstance(module, ModuleType) else {}
    except AttributeError:  # it only says that it is a module
        return {}


def _home_in(folders: tuple[str, ...], name: str) -> str | None:
    """The folder that a module of that name is imported from; a mere folder of modules where there is no other."""
    for folder in folders:
        if any(file.is_file() for file in _files_of(folder, name)):
            return folder
    is_mere = _own(sys.modules.get(name)).get("__file__") is None
    return next((folder for folder in folders if Path(folder, name).is_dir()), None) if is_mere else None


def forget_modules(folders: tuple[str, ...]) -> set[Path]:
    """Let what was imported from below these folders be imported anew when it is wanted again; the files that it was
    imported from. What is installed there, as in `.venv`, stays: it is not what anybody is writing."""
    files: set[Path] = set()
    with _importing:
        for modules in (sys.modules, *_shelf.values()):
            for name, module in list(modules.items()):
                own = _own(module)
                # A package without a file of its own has its modules as attributes, and would hand out the old ones.
                place = own.get("__file__") or next(iter(own.get("__path__") or ()), None)
                if isinstance(place, str) and name != "__main__" and _is_below(Path(place), folders):
                    del modules[name]
                    files |= {Path(place)} if "__file__" in own else set()
        _arranged_for[0] = ()
        importlib.invalidate_caches()
    return files


def _is_below(path: Path, folders: tuple[str, ...]) -> bool:
    if not {"site-packages", "dist-packages"}.isdisjoint(path.parts):
        return False
    installed = Path(os.__file__).parent, Path(__file__).parent
    return any(map(path.is_relative_to, folders)) and not any(map(path.is_relative_to, installed))


def _files_of(folder: str, name: str) -> tuple[Path, Path]:
    return Path(folder) / name / "__init__.py", Path(folder) / f"{name}.py"
