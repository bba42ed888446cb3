"""The user's code, found as files: the module of a name, and the script of a command line. Nothing is imported, not
even parent packages.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from rejoinder.project.files import Finder, in_quotes, near_name
from rejoinder.words.numbers import listed

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_SOURCES = (".py", ".sh", ".bash", ".zsh", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".r", ".jl")
"""Suffixes of program files: their author writes them, not the command that names them."""

_OF_SHELLS = frozenset(
    ("cd", "exec", "export", "set", "source", ".", "ulimit", "umask", "eval", "command", "if", "for")
)
"""Words that a shell reads itself."""
_OF_A_SHELL = re.compile(r"[$`;&|<>*?(){}~\n]")
"""Characters that make a command line more than a program and its arguments."""


def find_function(call: str, folders: tuple[str, ...]) -> str | None:
    """Why `module:function` cannot be called, as far as files show; None if it may exist."""
    name, _, function = call.partition(":")
    spec = _spec_of(name, folders)
    if spec is None:
        return find_module(call, folders)
    return _find_in(Path(spec.origin), name, function) if _is_own(spec.origin, folders) else None


def find_module(call: str, folders: tuple[str, ...]) -> str | None:
    """Why the module of `module:function` cannot be imported; None if its file exists."""
    name = call.partition(":")[0]
    if _spec_of(name, folders) is not None:
        return None
    where = listed([f"`{folder}`" for folder in dict.fromkeys(folders)])
    near = next(filter(None, (near_name(Path(folder, f"{name}.py")) for folder in folders)), None)
    hint = f"; did you mean `{Path(near).stem}`?" if near and near.endswith(".py") else ""
    return f"there is no module `{name}` in {where}, and none is installed{hint}"


def _is_own(origin: str | None, folders: tuple[str, ...]) -> TypeGuard[str]:
    """Whether it is a Python file of the project."""
    return origin is not None and origin.endswith(".py") and any(Path(origin).is_relative_to(one) for one in folders)


def _find_in(file: Path, module: str, function: str) -> str | None:
    try:
        names = _names_in(file)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" ({file.name}:{error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        return f"the module `{module}` cannot be imported: {type(error).__name__}: {error.args[0]}{line}"
    return None if names is None or function in names else f"the module `{module}` has no function `{function}`"


def _names_in(file: Path) -> set[str] | None:
    """The names that a module may define; None if only running it would show."""
    import ast

    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes(), str(file))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(one.asname or one.name).partition(".")[0] for one in node.names}
    return None if names & {"*", "__getattr__", "globals"} else names


def _spec_of(name: str, folders: tuple[str, ...]) -> ModuleSpec | None:
    """The spec of a module, found package by package: `importlib.util.find_spec` would import its parent packages."""
    path: list[str] | None = None
    spec: ModuleSpec | None = None
    steps = name.split(".")
    for depth in range(1, len(steps) + 1):
        spec = _find_spec(".".join(steps[:depth]), folders, path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    return spec


def _find_spec(name: str, folders: tuple[str, ...], path: list[str] | None) -> ModuleSpec | None:
    from importlib.machinery import PathFinder

    places = [*folders, *sys.path] if path is None else path
    spec = PathFinder.find_spec(name, places)
    if spec is not None:
        return spec
    finders = (finder for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((spec for finder in finders if (spec := finder.find_spec(name, path)) is not None), None)


def find_script(words: tuple[str, ...], cwd: str | None, folders: tuple[str, ...]) -> str | None:
    """Why a command cannot be run; None if its script exists, or if only a shell could decide."""
    folder = folder_for(cwd, folders)
    if not folder.is_dir():
        return f"there is no folder {in_quotes(str(cwd))} to run the script in"
    script = next((word for word in _words(words) if _names_script(word)), None)
    if script is None or (folder / script).exists():
        return None
    near = near_name(folder / script)
    hint = f"; did you mean `{Path(script).with_name(near)!s}`?" if near else ""
    return f"there is no script {in_quotes(script)} in `{folder}`{hint}"


def find_command(words: tuple[str, ...], cwd: str | None, folders: tuple[str, ...], path: str | None) -> str | None:
    """Why a command of a target cannot be run, as far as files show; None if it may run. `path`: the folders in which
    programs are looked for."""
    if (fault := find_script(words[2:] if words[:2] == ("sh", "-c") else words, cwd, folders)) is not None:
        return fault
    first = next(iter(_words(words[2:]) if words[:2] == ("sh", "-c") else words), "")
    if not first or "=" in first or first in _OF_SHELLS:
        return None
    from shutil import which

    program = str(folder_for(cwd, folders) / first) if "/" in first else first
    try:
        return None if which(program, path=path) is not None else f"there is no program {in_quotes(first)}"
    except ValueError:  # it has a character that no path has
        return f"there is no program {in_quotes(first)}"


def script_words(script: tuple[str, ...]) -> list[str]:
    """Words of a command that may name a file. Several words are used directly; a single one is a line for the
    shell."""
    first, *rest = script
    if rest:
        return [first, *rest]
    from shlex import shlex

    lexer = shlex(first, posix=True, punctuation_chars=True)  # `./check.py; echo` names ./check.py
    lexer.whitespace_split = True
    lexer.commenters = ""  # it would end a line at every `#`, and a shell only at one that begins a word
    try:
        return list(lexer)
    except ValueError:
        return first.split()


def is_source(path: Path) -> bool:
    """Whether it is a program or its source. Other files may be large, or written by the script itself."""
    try:
        return path.is_file() and (path.suffix.lower() in _SOURCES or os.access(path, os.X_OK))
    except (OSError, ValueError):
        return False


def _words(words: tuple[str, ...]) -> list[str]:
    if len(words) != 1:
        return list(words)
    [line] = words
    if _OF_A_SHELL.search(line):
        return []
    try:
        from shlex import split

        return split(line)
    except ValueError:
        return []


def _names_script(word: str) -> bool:
    """Whether it is the path of a program of the project. A system program has no folder in front."""
    is_path = word.startswith(("./", "../")) or Path(word).suffix.lower() in _SOURCES
    return is_path and not re.search(r"\s|=|^-", word) and "://" not in word


def folder_for(cwd: str | None, folders: tuple[str, ...]) -> Path:
    """The folder to run a script in, found as files are: from the suite's folder upward, then in the working
    directory."""
    here = Path(folders[0])
    if cwd is None:
        return here
    roots = Finder(here, Path(folders[-1]), Path.cwd()).roots
    below = [root / cwd.lstrip("/") for root in roots] if cwd.strip("/") else []
    return next((folder for folder in (*below, Path(cwd)) if folder.is_absolute() and folder.is_dir()), here / cwd)
