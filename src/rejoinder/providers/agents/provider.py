"""The provider of all agents. A conversation is a scratch folder and a driver. A turn takes a text, and returns the
reply, the agent's actions and the changes in its workspace.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from msgspec import Struct, structs

from rejoinder.model import NO_USAGE, Brief, Reply, Request, Target, ToolCall, estimate_usage
from rejoinder.project.dotenv import read_environment
from rejoinder.providers.agents.agent_settings import read_agent_settings, with_own_files
from rejoinder.providers.agents.driver import AgentTurn, Clock, Driver, Seat, agent_error
from rejoinder.providers.agents.environment import environment_for
from rejoinder.providers.agents.kinds import AGENTS, keys_for
from rejoinder.providers.agents.preread import write_preread
from rejoinder.providers.agents.workspace import (
    Revision,
    Scratch,
    copy_folder,
    copy_revision,
    own_place,
    remove_scratch_of,
)
from rejoinder.providers.base import Handed, ProviderError
from rejoinder.providers.one_text import one_text
from rejoinder.providers.settings import Settings
from rejoinder.providers.shared import Exchange
from rejoinder.providers.vector_bytes import no_embeddings
from rejoinder.user_code.processes import Command, run_process, shell_words
from rejoinder.user_code.programs import Guard, ProcessFault
from rejoinder.words.numbers import in_seconds

SETUP_S = 600.0
"""Time limit of each `setup` command, in seconds."""
LONGEST_REPLY = 4 << 20
LONGEST_RESULT = 64 << 10
"""Maximum characters of a tool's arguments, and of its result."""
MOST_CALLS = 1000
_SESSION = re.compile(r"[\w.:/+=][\w.:/+=-]{0,299}")
"""A session name becomes a word of the agent's command, so it must not look like an option."""
TEARDOWN_S = 20.0
"""Time limit of each `teardown` command, in seconds: the end of the run may have to wait for it."""


class _Conversation(Struct, frozen=True, eq=False):
    scratch: Scratch
    driver: Driver
    environment: Mapping[str, str]
    continued: bool
    """Whether a killed run began it."""


class AgentProvider:
    outside = True
    limiter = None
    keeps_history = True

    def __init__(
        self, target: Target, folders: tuple[str, ...], _environment: Mapping[str, str], exchange: Exchange
    ) -> None:
        self._settings = with_own_files(Settings(target, {}), folders)
        self._kind = AGENTS[target.provider]
        self._exchange = exchange
        self._environment = read_environment(Path(folders[0]), Path(folders[-1]), Path.cwd())
        keys = keys_for(target.provider, self._environment)
        for name, value in keys.items():
            exchange.secret_finder.add(value, f"env {name}")
        self._owner = str(uuid4())
        self._guard: Guard | None = None
        self._open: dict[str, _Conversation] = {}
        self._given = read_agent_settings(self._kind, self._settings, folders, self._environment)
        self.handed = Handed(tuple(keys.values()), self._kind.vendors, not self._given.has_own_home)

    async def reply(self, request: Request) -> Reply:
        return await self.reply_within(request, None)

    async def reply_within(self, request: Request, timeout_s: float | None) -> Reply:
        if request.embed is not None:
            raise no_embeddings(self._settings.target.provider)
        loop = asyncio.get_running_loop()
        conversation = self._open.get(request.conversation_id)
        is_first = conversation is None
        if conversation is None:
            conversation, prompt = await self._begin(request)
        else:
            prompt = one_text(request.new_messages)
            if self._can_continue and request.session:
                await asyncio.to_thread(conversation.scratch.set_aside, request.turn - 1, request.session)
        until = None if timeout_s is None else loop.time() + timeout_s
        clock = Clock(until, self._given.silence_s)
        try:
            turn = await conversation.driver.ask(prompt, clock)
        except ProviderError as error:
            error.message += self._advice(error, timeout_s, is_first=is_first)
            raise
        for note in turn.notes:
            self._exchange.note(f"target `{request.target}`, case `{request.case_id}`, turn {request.turn}: {note}")
        diff = await asyncio.to_thread(conversation.scratch.diff)
        return structs.replace(reply_of(turn, prompt, diff), continued=conversation.continued and is_first)

    def _advice(self, error: ProviderError, timeout_s: float | None, *, is_first: bool) -> str:
        """Advice for an error: more time, or a key that the agent lacks."""
        if error.type == "timeout" and timeout_s is not None:
            return f" ({in_seconds(timeout_s)}; `timeout_seconds` says how long it may take)"
        keys = self._kind.keys
        has_key = any(self._environment.get(name) or name in self._given.variables for name in keys)
        if not is_first or not keys or has_key or not self._given.has_own_home:
            return ""
        return f"; it has no key: set {keys[0]}, or write `home: shared` where you are logged in"

    def take_up(self, request: Request) -> bool:
        """Whether this turn can continue a conversation of a killed run. If not, its remains are removed."""
        scratch = self._scratch(request)
        if self._can_continue and scratch.session_after(request.turn - 1) is not None:
            return True
        scratch.remove()
        return False

    def _scratch(self, request: Request) -> Scratch:
        return Scratch(self._exchange.workspaces.run, request.conversation_id, self._owner)

    @property
    def _can_continue(self) -> bool:
        """Whether conversations can be continued. A shared home is not copied, and its sessions contain the interrupted
        turn."""
        return self._kind.can_continue and self._given.has_own_home

    def workspace_of(self, conversation_id: str) -> Scratch | None:
        conversation = self._open.get(conversation_id)
        return None if conversation is None else conversation.scratch

    async def end(self, request: Request, *, failed: bool) -> None:
        conversation = self._open.pop(request.conversation_id, None)
        if conversation is None:
            return
        scratch = conversation.scratch
        try:
            await conversation.driver.close()
            await self._run_commands("teardown", self._given.teardown, scratch, conversation.environment)
        except ProviderError as error:
            self._exchange.note(f"target `{request.target}`, case `{request.case_id}`: {error.message}")
        finally:
            place = self._exchange.workspaces.place_for(request, failed=failed)
            try:
                if place is not None:
                    scratch.keep(place)
            finally:
                scratch.remove()

    async def close(self) -> None:
        for conversation in self._open.values():
            await conversation.driver.close()
            conversation.scratch.remove()
        if self._guard is not None:
            self._guard.close()
        await asyncio.to_thread(remove_scratch_of, self._exchange.workspaces.run)

    async def _begin(self, request: Request) -> tuple[_Conversation, str]:
        """A conversation, and the text of its next turn."""
        self._guard = self._guard or Guard(self._owner)
        scratch, brief = self._scratch(request), request.brief
        session = scratch.session_after(request.turn - 1) if request.new else None
        environment = environment_for(self._kind, self._given, scratch, self._environment)
        if session is not None:
            try:
                await asyncio.to_thread(scratch.put_back)
            except OSError as error:
                raise agent_error(f"the workspace cannot be put back as it was: {error}") from None
            prompt = one_text(request.new_messages)
        else:
            places = await self._furnish(scratch, environment, brief)
            prompt = write_preread(brief, places) if brief is not None else one_text(request.messages)
        seat = Seat(
            workspace=scratch.workspace,
            home=scratch.home,
            environment=environment,
            owner=self._owner,
            conversation_id=request.conversation_id,
            continues=session,
        )
        conversation = _Conversation(scratch, self._kind.driver(self._settings, seat), environment, session is not None)
        self._open[request.conversation_id] = conversation
        return conversation, prompt

    async def _furnish(
        self, scratch: Scratch, environment: Mapping[str, str], brief: Brief | None
    ) -> Mapping[str, Path]:
        """Make the folders and copy the given files into them; return the locations of the case's files."""
        try:
            await asyncio.to_thread(self._copy_into, scratch)
            places = scratch.place(brief.files) if brief is not None else {}
            await self._run_commands("setup", self._given.setup, scratch, environment)
            await asyncio.to_thread(scratch.remember)
        except OSError as error:
            scratch.remove()
            raise agent_error(f"the workspace cannot be made: {error}") from None
        except BaseException:
            scratch.remove()
            raise
        return places

    def _copy_into(self, scratch: Scratch) -> None:
        scratch.make()
        self._kind.make_home(scratch.home)
        given = self._given
        if isinstance(given.template, Revision):
            copy_revision(given.template, scratch.workspace)
        elif given.template is not None:
            copy_folder(given.template, scratch.workspace)
        for skill in given.skills:
            place = own_place(scratch.workspace, f"{self._kind.skills}/{skill.name}")
            shutil.copytree(skill, place, symlinks=True, dirs_exist_ok=True)
        if given.instructions is not None:
            shutil.copyfile(given.instructions, own_place(scratch.workspace, self._kind.instructions))

    async def _run_commands(
        self, name: str, lines: tuple[str, ...], scratch: Scratch, environment: Mapping[str, str]
    ) -> None:
        """Raises ProviderError."""
        for line in lines:
            command = Command(
                words=shell_words(line),
                folder=scratch.workspace,
                environment=environment,
                timeout_s=SETUP_S if name == "setup" else TEARDOWN_S,
                called=f"`{name}` command",
                owner=self._owner,
            )
            try:
                ended = await run_process(command)
            except ProcessFault as fault:
                raise agent_error(str(fault), type=name) from None
            if ended.exit_code:
                said = ended.last_words
                message = f"the `{name}` command {ended.how()}{f': {said}' if said else ''}"
                raise agent_error(message, type=name)


def reply_of(turn: AgentTurn, prompt: str, diff: str) -> Reply:
    """A turn as a reply. Raises ProviderError. What is recorded is limited in size: an agent may print anything."""
    session = turn.session
    if session is not None and not _SESSION.fullmatch(session):
        raise agent_error(f"the agent names its session {session[:50]!r}, which cannot be one")
    usage = turn.usage if turn.usage != NO_USAGE else estimate_usage(len(prompt), len(turn.text))
    return Reply(
        _cut(turn.text, LONGEST_REPLY),
        usage=usage,
        cost=turn.cost,
        model=turn.model,
        finish_reason="stop",
        tool_calls=tuple(map(_bounded, turn.tool_calls[:MOST_CALLS])),
        thinking=_cut(turn.thinking, LONGEST_REPLY) or None,
        session=session,
        stop_reason=turn.stop_reason,
        workspace_diff=diff,
    )


def _bounded(call: ToolCall) -> ToolCall:
    result = None if call.result is None else _cut(call.result, LONGEST_RESULT)
    arguments = call.arguments if len(call.arguments) <= LONGEST_RESULT else '{"left out": "it is too long"}'
    return structs.replace(call, name=_cut(call.name, 500), arguments=arguments, result=result)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]} ... ({len(text) - longest:,} characters more)"
