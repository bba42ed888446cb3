"""Agents that speak the Agent Client Protocol, version 1, over their pipes: one process per conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rejoinder.providers.agents.acp_agents import UNKNOWN, Accounts, Manner, manner_of, told_model
from rejoinder.providers.agents.acp_opening import Opening, Session
from rejoinder.providers.agents.acp_settings import Wanted, read_wanted
from rejoinder.providers.agents.acp_turn import CANCELLED, Turn
from rejoinder.providers.agents.acp_wire import RpcError, Wire
from rejoinder.providers.agents.agent_json import as_mapping, text_at
from rejoinder.providers.agents.commands import start
from rejoinder.providers.agents.driver import AgentTurn, Clock, Seat, agent_error, failed, line_error
from rejoinder.providers.base import ProviderError
from rejoinder.providers.settings import Settings
from rejoinder.user_code.line_process import LineFault

if TYPE_CHECKING:
    from rejoinder.providers.agents.kinds import AgentKind

CANCEL_S = 2.0
"""Seconds that an agent has to end a turn after it was cancelled."""
LATE_S = 0.05
"""Seconds of silence after which a turn is over: updates that arrive before belong to it."""
CLOSE_S = 2.0
"""Seconds that an agent has to exit after its input is closed: some never do."""


class AcpDriver:
    """An agent in one conversation."""

    def __init__(self, kind: AgentKind, settings: Settings, seat: Seat) -> None:
        self._wanted = read_wanted(kind, settings)
        self._seat = seat
        self._manner = manner_of(self._wanted.words[0], *kind.command[:1])
        """The manner for its program's name, until the agent gives its own name."""
        self._client = _Client(Accounts(is_new=seat.continues is None))
        self._session: Session | None = None
        self._wire: Wire | None = None
        self._is_over = False

    async def ask(self, prompt: str, clock: Clock) -> AgentTurn:
        if self._is_over:
            raise agent_error("the agent has ended before")
        try:
            if self._session is None:
                self._session = await self._open(clock)
                return await self._play(self._session, prompt, clock, self._session.notes)
            return await self._play(self._session, prompt, clock)
        except LineFault as fault:
            await self.close()
            raise line_error(fault) from None
        except asyncio.CancelledError:
            await self._end(0.0)
            raise
        except ProviderError:
            if self._session is None:  # what it lacks to begin, it lacks the next time, too
                await self.close()
            raise

    async def close(self) -> None:
        await self._end(CLOSE_S)

    async def _end(self, grace_s: float) -> None:
        self._is_over = True
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.process.close(grace_s=grace_s)

    async def _open(self, clock: Clock) -> Session:
        wire = self._wire = self._start()
        opening = Opening(wire, self._wanted, self._seat, clock)
        info = await opening.introduce()
        name = text_at(info, "agentInfo", "name")
        known = manner_of(name)
        self._manner = self._manner if known is UNKNOWN else known
        session = await opening.begin(info, self._manner)
        self._client.session = session.id
        return session

    def _start(self) -> Wire:
        manner, seat = self._manner, self._seat
        variables = {name: value for name, value in manner.variables.items() if name not in seat.environment}
        if self._wanted.model and manner.model_variable:
            variables[manner.model_variable] = self._wanted.model
        return Wire(start(self._wanted.words, seat, "the agent", variables), self._client)

    async def _play(self, session: Session, prompt: str, clock: Clock, notes: tuple[str, ...] = ()) -> AgentTurn:
        wire = self._wire
        if wire is None:  # closed while it began
            raise agent_error("the agent was ended")
        await wire.catch_up(LATE_S, asyncio.get_running_loop().time() + CANCEL_S)
        turn = self._client.begin(self._wanted, self._manner)
        blocks = [{"type": "text", "text": prompt}]
        try:
            answer = await wire.call("session/prompt", {"sessionId": session.id, "prompt": blocks}, clock)
        except RpcError as error:
            raise failed(f"the agent failed: {error}", status=error.status) from None
        except LineFault as fault:
            if fault.kind != "crash":
                await self._cancel(wire, session)
            raise
        finally:
            self._client.end()
        return self._read(session, turn, answer, notes)

    async def _cancel(self, wire: Wire, session: Session) -> None:
        """Ask the agent to stop, so that it can leave its work in order, and wait a little."""
        self._client.end()
        wire.notify("session/cancel", {"sessionId": session.id})
        try:
            await wire.result(Clock(asyncio.get_running_loop().time() + CANCEL_S))
        except (RpcError, LineFault):
            return

    def _read(self, session: Session, turn: Turn, answer: Mapping[str, Any], notes: tuple[str, ...]) -> AgentTurn:
        """Read a finished turn. Raises ProviderError if it ended by the protocol and is an error nevertheless."""
        calls, messages, reason = turn.tool_calls(), turn.messages, text_at(answer, "stopReason") or None
        accounts = self._client.accounts
        usage = accounts.tokens(answer, self._manner.counts, used_tools=any(call.status != "denied" for call in calls))
        if reason == "cancelled" and not turn.was_denied:
            raise agent_error("the agent cancelled the turn by itself")
        if reason in ("end_turn", None):
            if self._manner.error and messages and messages[-1].startswith(self._manner.error):
                raise failed(f"the agent failed: {messages[-1].strip()}")
            if not messages and not calls:
                raise agent_error("the agent ended its turn without a word")
        return AgentTurn(
            text="\n\n".join(messages),
            thinking=turn.thinking,
            tool_calls=calls,
            usage=usage,
            cost=accounts.cost(),
            stop_reason=reason,
            session=session.id,
            model=told_model(answer) or session.model or None,
            notes=(*notes, *turn.notes),
        )


class _Client:
    """Our side of a session: it receives updates, and answers the agent's requests."""

    def __init__(self, accounts: Accounts) -> None:
        self.accounts = accounts
        self.session = ""
        self._turn: Turn | None = None
        """None between turns: updates that arrive then belong to no turn."""
        self._earlier: set[str] = set()

    def begin(self, wanted: Wanted, manner: Manner) -> Turn:
        self.accounts.begin()
        self._turn = Turn(wanted.permissions, self._earlier, manner.warnings)
        return self._turn

    def end(self) -> None:
        if self._turn is not None:
            self._earlier |= self._turn.ids
        self._turn = None

    def hear(self, method: str, params: Mapping[str, Any]) -> None:
        if method != "session/update" or (self.session and params.get("sessionId") != self.session):
            return
        update = as_mapping(params.get("update"))
        if update.get("sessionUpdate") == "usage_update":
            self.accounts.hear(update)
        elif self._turn is not None:
            self._turn.take(update)

    def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if method != "session/request_permission":
            return None
        if self._turn is None:
            return CANCELLED
        return self._turn.permit(params)
