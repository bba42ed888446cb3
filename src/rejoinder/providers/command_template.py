"""Command templates and the values of one call.

Values never become shell code: the shell gets them as variables, which it reads in quotes. So a prompt cannot run
anything, wherever its placeholder is.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from rejoinder.placeholders import OF_A_COMMAND, OF_A_FILE, fill, find_faults, find_faults_of_words, named_in
from rejoinder.user_code.processes import shell_words

_VARIABLE = "_rejoinder_"


class Values(Struct, frozen=True, kw_only=True):
    """The values of a command's placeholders in one call."""

    prompt: str = ""
    guidelines: str = ""
    eval_id: str
    attempt: int = 0
    files: tuple[str, ...] = ()
    scratch: Path
    """The folder of this call."""

    @property
    def prompt_file(self) -> Path:
        return self.scratch / "prompt.txt"

    @property
    def output_file(self) -> Path:
        return self.scratch / "output.txt"

    def of(self, name: str) -> str:
        """The value of a placeholder that holds one text."""
        return str(getattr(self, name.lower()))


class Template:
    """A command with placeholders: a line for the shell, or words that are run without a shell."""

    def __init__(self, command: str | list[str], files_format: str = "{path}") -> None:
        """Read a template. Raises ValueError with the reason if a placeholder is wrong."""
        self._command = command
        self._files_format = files_format
        texts = [command] if isinstance(command, str) else command
        self.names = {name for text in texts for name in named_in(text)}
        """The placeholders in it."""
        if isinstance(command, str):
            faults = [*find_faults(command, for_shell=True), *find_faults(files_format, OF_A_FILE, for_shell=True)]
        else:
            faults = [fault for _, fault in find_faults_of_words(command)]
            faults += find_faults(files_format, OF_A_FILE)
            shlex.split(files_format)
        if faults:
            raise ValueError(faults[0])

    @property
    def reads_stdin(self) -> bool:
        """Whether the prompt is passed on standard input."""
        return self.names.isdisjoint(("PROMPT", "PROMPT_FILE"))

    def words(self, values: Values) -> tuple[str, ...]:
        """The words to run."""
        if isinstance(self._command, str):
            return self._for_shell(self._command, values)
        return tuple(filled for word in self._command for filled in self._filled(word, values))

    def shown(self, values: Values) -> str | list[str]:
        """The command as a person would type it: the line with quoted values, or the words."""
        if not isinstance(self._command, str):
            return list(self.words(values))
        paths = (
            fill(self._files_format, OF_A_FILE, lambda part, path=path: shlex.quote(_part_of(path, part)))
            for path in values.files
        )
        files = " ".join(paths)
        return fill(
            self._command, OF_A_COMMAND, lambda name: files if name == "FILES" else shlex.quote(values.of(name))
        )

    def _filled(self, word: str, values: Values) -> Iterator[str]:
        if word != "{FILES}":
            yield fill(word, OF_A_COMMAND, values.of)
            return
        for path in values.files:
            for part in shlex.split(self._files_format):
                yield fill(part, OF_A_FILE, lambda name, path=path: _part_of(path, name))

    def _for_shell(self, line: str, values: Values) -> tuple[str, ...]:
        """The line with a variable in place of each value; the shell reads the values from its arguments."""
        given: list[str] = []

        def variable(value: str) -> str:
            given.append(value)
            return f'"${{{_VARIABLE}{len(given)}}}"'

        def named(name: str) -> str:
            if name != "FILES":
                return variable(values.of(name))
            return " ".join(
                fill(self._files_format, OF_A_FILE, lambda part, path=path: variable(_part_of(path, part)))
                for path in values.files
            )

        filled = fill(line, OF_A_COMMAND, named)
        if not given:
            return shell_words(filled)
        taken = " ".join(f"{_VARIABLE}{place}=${{{place}}}" for place in range(1, len(given) + 1))
        return (*shell_words(f"{taken}; shift {len(given)}; {filled}"), "sh", *given)


def _part_of(path: str, name: str) -> str:
    return path if name == "path" else Path(path).name
