"""`cli`: a command answers. `command_template` is a line for the shell, `command` a list of words that no shell reads.

Each call runs the command once and ends all of its process group. The command gets the environment without its secrets.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from rejoinder.errors import UsageError
from rejoinder.model import Brief, Reply, Request, Target, estimate_usage
from rejoinder.project.dotenv import environment_of
from rejoinder.providers.base import Handed, ProviderError
from rejoinder.providers.command_template import Template, Values
from rejoinder.providers.one_text import one_text
from rejoinder.providers.settings import Settings, normalize_keys
from rejoinder.providers.shared import Exchange
from rejoinder.providers.vector_bytes import no_embeddings
from rejoinder.user_code.lookup import folder_for
from rejoinder.user_code.processes import Command, Ended, decode, run_process
from rejoinder.user_code.programs import ProcessFault, end_all_of
from rejoinder.user_code.variables import Given, given_to_command

if TYPE_CHECKING:
    from rejoinder.providers.http_client import Transport

MOST_OUTPUT = 10 << 20
"""Maximum bytes of a reply, and of a command's whole output. AgentV has the same limit."""
LONGEST_ARGUMENT = (128 << 10) - 1
"""Maximum bytes of one argument on Linux."""
HEALTHCHECK_S = 60.0
_UNDER_WAY = ("timeout", "flood")
"""Errors of a command that has already started."""


class _Runner:
    """Runs the commands of one target."""

    def __init__(self, given: Given, *, may_retry: bool) -> None:
        self._given = given
        self._may_retry = may_retry
        """A command's effects before a failure are not undone, so it is retried only if the target allows it."""
        self._owner = ""

    def end_rest(self) -> None:
        """End processes that commands left running outside of their process groups."""
        if self._owner:
            end_all_of(self._owner)

    async def run(self, template: Template, values: Values, folder: Path, timeout_s: float | None) -> Ended:
        """Run a command to its end. Raises ProviderError if it fails."""
        words = template.words(values)
        _refuse_long(words, values)
        prompt = values.prompt.encode("utf-8", "replace")
        if "PROMPT_FILE" in template.names:
            values.prompt_file.write_bytes(prompt)
        self._owner = self._owner or str(uuid4())
        command = Command(
            words=words,
            folder=folder,
            environment=self._given.variables,
            timeout_s=timeout_s,
            stdin=prompt if template.reads_stdin else b"",
            most_stdout=MOST_OUTPUT,
            called="command",
            owner=self._owner,
        )
        try:
            ended = await run_process(command)
        except ProcessFault as fault:
            kind, started = ("timeout" if fault.trouble == "timeout" else "command"), fault.trouble in _UNDER_WAY
            raise ProviderError(
                str(fault),
                type=kind,
                retryable=started and self._may_retry,
                ends_target=fault.trouble == "start",
            ) from None
        if ended.exit_code:
            said = ended.last_words
            message = f"the command {ended.how()}{f': {said}' if said else ''}{self._missed(said)}"
            raise ProviderError(message, type="command", retryable=self._may_retry)
        return ended

    def _missed(self, said: str) -> str:
        """A hint if the command complains about a variable that was withheld from it."""
        names = sorted(name for name in self._given.withheld if re.search(rf"\b{re.escape(name)}\b", said))
        if not names:
            return ""
        own = ", ".join(f"{name}: ${{{{ {name} }}}}" for name in names)
        return f"\nCommands do not get secrets of the environment; to pass it: `env: {{{own}}}`"


class CliProvider:
    outside = True
    limiter = None
    handed = Handed()

    def __init__(
        self, target: Target, folders: tuple[str, ...], _environment: Mapping[str, str], exchange: Exchange
    ) -> None:
        settings = Settings(target, {})
        environment = environment_of(folders)
        given = given_to_command(environment, settings.mapping("env"))
        self._name = target.name
        self._template = read_template(settings)
        self._folder = folder_for(settings.text("cwd"), folders)
        self._runner = _Runner(given, may_retry=bool(settings.values.get("max_retries")))
        self._health = _Health(settings, folders, self._runner, lambda: exchange.transport(environment))
        self._exchange = exchange
        self._failed: Counter[str] = Counter()
        """Failures of each call."""

    async def reply(self, request: Request) -> Reply:
        return await self.reply_within(request, None)

    async def reply_within(self, request: Request, timeout_s: float | None) -> Reply:
        if request.embed is not None:
            raise no_embeddings("cli")
        await self._health.ensure(timeout_s)
        prompt, guidelines = self._texts_of(request)
        files = request.brief.files if request.brief is not None else ()
        try:
            with _scratch() as scratch:
                values = Values(
                    prompt=prompt,
                    guidelines=guidelines,
                    eval_id=request.case_id,
                    attempt=self._failed[request.key],
                    files=tuple(dict.fromkeys(file.source for file in files)),
                    scratch=scratch,
                )
                ended = await self._runner.run(self._template, values, self._folder, timeout_s)
                text = self._read(ended, values, request)
        except ProviderError:
            self._failed[request.key] += 1
            raise
        del self._failed[request.key]
        return Reply(text, usage=estimate_usage(len(prompt) + len(guidelines), len(text)))

    async def close(self) -> None:
        self._runner.end_rest()

    def _texts_of(self, request: Request) -> tuple[str, str]:
        """The prompt and the guidelines of a call. A judge, or another target that is asked besides the one under test,
        has only messages, which become one text."""
        brief = request.brief
        if brief is None:
            return one_text(request.messages), ""
        if brief.system_prompt and "GUIDELINES" not in self._template.names:
            what = f"the case has a system prompt, but the command of target `{self._name}` has no `{{GUIDELINES}}`"
            raise ProviderError(f"{what} to receive it", type="request")
        return texts_for(brief)

    def _read(self, ended: Ended, values: Values, request: Request) -> str:
        """The reply: the file that the command should write, or its output."""
        text, is_utf8 = ended.stdout, ended.is_utf8
        if "OUTPUT_FILE" in self._template.names:
            text, is_utf8 = decode(_read_output(values.output_file, ended))
        if not is_utf8:
            place = f"target `{self._name}`, case `{request.case_id}`, trial {request.trial}, turn {request.turn}"
            self._exchange.note(f"{place}: the reply has bytes that are not UTF-8; they are shown as \ufffd")
        return text.rstrip("\r\n")


class _Health:
    """The health check of a target, made once, before its first call."""

    def __init__(
        self, settings: Settings, folders: tuple[str, ...], runner: _Runner, transport: Callable[[], Transport]
    ) -> None:
        check = normalize_keys(settings.values.get("healthcheck") or {})
        kind = check.get("type")
        needed = "url" if kind == "http" else "command_template"
        if check and not check.get(needed):
            raise settings.error(f"has a health check without `{needed}`")
        self._runner = runner
        self._transport = transport
        self._url = str(check["url"]) if kind == "http" else ""
        self._template = _template(settings, str(check["command_template"])) if check and kind != "http" else None
        self._folder = folder_for(check.get("cwd") or settings.text("cwd"), folders)
        self._timeout_s = check.get("timeout_seconds")
        self._once = asyncio.Lock()
        self._is_due = bool(check)
        self._failure: ProviderError | None = None

    async def ensure(self, timeout_s: float | None) -> None:
        """Check the command. Raises ProviderError if it is not ready; then no call is made."""
        async with self._once:
            if self._is_due:
                try:
                    await self._make(float(self._timeout_s or timeout_s or HEALTHCHECK_S))
                except ProviderError as error:
                    self._failure = error
                self._is_due = False
        if self._failure is not None:
            message = f"the health check failed: {self._failure.message}"
            raise ProviderError(message, type="healthcheck", ends_target=True)

    async def _make(self, timeout_s: float) -> None:
        if self._template is not None:
            with _scratch() as scratch:
                values = Values(eval_id="healthcheck", scratch=scratch)
                await self._runner.run(self._template, values, self._folder, timeout_s)
            return
        answer = await self._transport().send("GET", self._url, {}, None, timeout_s=timeout_s)
        if not 200 <= answer.status < 300:
            raise ProviderError(f"{self._url} answered {answer.status}")


def texts_for(brief: Brief) -> tuple[str, str]:
    """The values of `{PROMPT}` and `{GUIDELINES}`."""
    return brief.prompt, "\n\n".join(text for text in (brief.system_prompt, brief.guidelines) if text)


def read_template(settings: Settings) -> Template:
    command = settings.values.get("command")
    files_format = settings.text("files_format") or "{path}"
    if command is None:
        return _template(settings, settings.needed("command_template"), files_format)
    if settings.values.get("command_template") is not None:
        raise settings.error("has both `command` and `command_template`")
    return _template(settings, [str(word) for word in command], files_format)


def _template(settings: Settings, command: str | list[str], files_format: str = "{path}") -> Template:
    try:
        return Template(command, files_format)
    except ValueError as error:
        raise UsageError(f"target `{settings.target.name}`: {error}") from None


def _refuse_long(words: tuple[str, ...], values: Values) -> None:
    """Refuse an argument that is too long, with a clearer message than the operating system's."""
    longest = max(len(word.encode("utf-8", "surrogatepass")) for word in words)
    if longest <= LONGEST_ARGUMENT:
        return
    of_prompt = len(values.prompt) >= len(values.guidelines)
    what = "the prompt" if of_prompt else "the guidelines"
    instead = (
        "Remove `{PROMPT}` to pass it on standard input, or use `{PROMPT_FILE}`."
        if of_prompt
        else "Use `{FILES}`, which holds the paths of the files."
    )
    verb = "has" if of_prompt else "have"
    message = f"{what} {verb} {longest:,} bytes; a command-line argument can hold 128 KiB. {instead}"
    raise ProviderError(message, type="request")


def _read_output(path: Path, ended: Ended) -> bytes:
    try:
        if not path.is_file():
            raise FileNotFoundError
        with path.open("rb") as file:
            data = file.read(MOST_OUTPUT + 1)
    except FileNotFoundError:
        data = None
    except OSError as error:
        raise ProviderError(f"the file `{{OUTPUT_FILE}}` cannot be read: {error.strerror}", type="command") from None
    if data is not None and len(data) > MOST_OUTPUT:
        raise ProviderError("the command writes more than 10 MiB in `{OUTPUT_FILE}`", type="command")
    if data is None or not data.strip():
        what = "left `{OUTPUT_FILE}` empty" if data is not None else "did not write `{OUTPUT_FILE}`"
        said = ended.last_words
        raise ProviderError(f"the command succeeded but {what}{f'; it said: {said}' if said else ''}", type="command")
    return data


@contextmanager
def _scratch() -> Generator[Path]:
    """A folder for the files of one call, which no other user can read."""
    with tempfile.TemporaryDirectory(prefix="rejoinder-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
