"""The steps until an agent's session is there: who it is, login, servers of tools, mode, model and options."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from rejoinder._version import __version__
from rejoinder.providers.agents.acp_agents import Manner
from rejoinder.providers.agents.acp_settings import Wanted, as_acp_server
from rejoinder.providers.agents.acp_wire import AUTHENTICATION_REQUIRED, RpcError, Wire
from rejoinder.providers.agents.agent_json import as_items, as_mapping, at, text_at
from rejoinder.providers.agents.driver import Clock, Seat, agent_error, failed

START_S = 120.0
"""Seconds that an agent may take for each step until its session is ready."""
REPLAY_S = 0.5
"""Seconds of silence that end an agent's repetition of a session that it continues."""
_VERSION = 1
_CLIENT = {
    "protocolVersion": _VERSION,
    "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
    "clientInfo": {"name": "rejoinder", "title": "rejoinder", "version": __version__},
}


class Session:
    """A session of the agent."""

    def __init__(self, id: str, model: str, notes: tuple[str, ...]) -> None:
        self.id = id
        self.model = model
        self.notes = notes
        """Notes for the user about the session, reported with its first turn."""


class Opening:
    """The steps until a session is ready."""

    def __init__(self, wire: Wire, wanted: Wanted, seat: Seat, clock: Clock) -> None:
        self._wire = wire
        self._wanted = wanted
        self._seat = seat
        self._clock = clock

    async def introduce(self) -> Mapping[str, Any]:
        info = await self._call("initialize", _CLIENT)
        version = info.get("protocolVersion")
        if version != _VERSION:
            spoken = f"version {version} of" if isinstance(version, int) else "no version of"
            raise agent_error(
                f"the agent speaks {spoken} the Agent Client Protocol; version {_VERSION} is needed", ends_target=True
            )
        return info

    async def begin(self, info: Mapping[str, Any], manner: Manner) -> Session:
        """Begin or continue the session, and set it up as the target requires."""
        servers = self._servers(info, manner)
        if self._wanted.auth_method:
            await self._call("authenticate", {"methodId": self._wanted.auth_method}, settles=True)
        place = {"cwd": str(self._seat.workspace.absolute()), "mcpServers": servers}
        if self._seat.continues is None:
            state = await self._new(place, info, manner)
            id = text_at(state, "sessionId")
        else:
            id = self._seat.continues
            state = await self._go_on({"sessionId": id, **place}, info)
        if not id:
            raise agent_error("the agent did not begin a session")
        state = await self._adapt(id, state, manner)
        agent = as_mapping(info.get("agentInfo"))
        who = f"{text_at(agent, 'name')} {text_at(agent, 'version')}".strip()
        return Session(id, _current_model(state), (who,) if who else ())

    def _servers(self, info: Mapping[str, Any], manner: Manner) -> list[Mapping[str, Any]]:
        can = as_mapping(at(info, "agentCapabilities", "mcpCapabilities"))
        for server in self._wanted.servers:
            if server.command and not manner.takes_programs:
                what = "is a program, but this agent accepts MCP servers only by `url`"
            elif server.url and not can.get("http"):
                what = "has a `url`, but this agent accepts only MCP servers that are programs"
            else:
                continue
            raise agent_error(f"the MCP server `{server.name}` {what}", ends_target=True)
        return [as_acp_server(server) for server in self._wanted.servers]

    async def _new(self, place: Mapping[str, Any], info: Mapping[str, Any], manner: Manner) -> Mapping[str, Any]:
        """Open a session. If the agent requires a login, use the method for the key that it has."""
        variables = self._seat.environment
        method = next((method for name, method in manner.logins.items() if variables.get(name)), None)
        try:
            return await self._wire.call("session/new", place, self._patience())
        except RpcError as error:
            if error.code != AUTHENTICATION_REQUIRED:
                raise failed(f"the agent failed: {error}") from None
            if method is None or self._wanted.auth_method:
                offered = ", ".join(text_at(one, "id") for one in as_items(info.get("authMethods")))
                ways = f"its ways to log in (`auth_method`): {offered or 'none'}"
                raise agent_error(f"the agent failed: {error}; {ways}", ends_target=True) from None
        await self._call("authenticate", {"methodId": method}, settles=True)
        return await self._call("session/new", place)

    async def _go_on(self, place: Mapping[str, Any], info: Mapping[str, Any]) -> Mapping[str, Any]:
        can = as_mapping(info.get("agentCapabilities"))
        if isinstance(as_mapping(can.get("sessionCapabilities")).get("resume"), dict):
            return await self._call("session/resume", place)
        if not can.get("loadSession"):
            raise agent_error("the agent cannot continue a session")
        state = await self._call("session/load", place)
        patience = asyncio.get_running_loop().time() + START_S
        await self._wire.catch_up(REPLAY_S, patience)  # some repeat what was said after their answer
        return state

    async def _adapt(self, id: str, state: Mapping[str, Any], manner: Manner) -> Mapping[str, Any]:
        """Set mode, model and options; the state of the session after that."""
        wanted = self._wanted
        state = dict(state)
        mode = wanted.mode or (manner.full_mode if wanted.permissions.all_allowed else None)
        if mode:
            state |= await self._set_mode(id, state, mode)
        if wanted.model:
            state |= await self._set_model(id, state, wanted.model, manner)
        for option, value in wanted.config.items():
            state |= await self._set_option(id, option, value)
        return state

    async def _set_mode(self, id: str, state: Mapping[str, Any], mode: str) -> Mapping[str, Any]:
        modes = as_items(at(state, "modes", "availableModes"))
        if not modes and (option := _option(state, "mode")):
            return await self._set_option(id, option, mode)
        for known in modes:
            own = text_at(known, "id")
            if mode in (own, own.rpartition("#")[2], known.get("name")):  # ids may be addresses
                await self._call("session/set_mode", {"sessionId": id, "modeId": own}, settles=True)
                return {}
        names = ", ".join(text_at(known, "id") for known in modes)
        raise agent_error(f"the agent has no mode `{mode}`; it offers {names or 'none'}", ends_target=True)

    async def _set_model(self, id: str, state: Mapping[str, Any], model: str, manner: Manner) -> Mapping[str, Any]:
        if option := _option(state, "model"):
            return await self._set_option(id, option, model)
        models = as_mapping(state.get("models"))
        if models:
            await self._call("session/set_model", {"sessionId": id, "modelId": model}, settles=True)
            return {"models": {**models, "currentModelId": model}}
        if manner.model_variable:
            return {"models": {"currentModelId": model}}
        raise agent_error(
            "the agent offers no choice of a model; leave out `model`, and choose it by `command` or `env`",
            ends_target=True,
        )

    async def _set_option(self, id: str, option: str, value: Any) -> Mapping[str, Any]:
        typed = {"type": "boolean", "value": value} if isinstance(value, bool) else {"value": str(value)}
        return await self._call(
            "session/set_config_option", {"sessionId": id, "configId": option, **typed}, settles=True
        )

    async def _call(self, method: str, params: Mapping[str, Any], *, settles: bool = False) -> Mapping[str, Any]:
        """`settles`: a failure is final, because every conversation would be refused in the same way."""
        try:
            return await self._wire.call(method, params, self._patience())
        except RpcError as error:
            raise agent_error(f"the agent failed at `{method}`: {error}", ends_target=settles) from None

    def _patience(self) -> Clock:
        bound = asyncio.get_running_loop().time() + START_S
        until = self._clock.until
        return Clock(bound if until is None else min(bound, until), self._clock.silence_s)


def _option(state: Mapping[str, Any], category: str) -> str | None:
    """The option by which a session's mode or model is chosen."""
    for option in as_items(state.get("configOptions")):
        if category in (option.get("category"), option.get("id")):
            return text_at(option, "id") or None
    return None


def _current_model(state: Mapping[str, Any]) -> str:
    for option in as_items(state.get("configOptions")):
        if "model" in (option.get("category"), option.get("id")):
            return text_at(option, "currentValue")
    return text_at(state, "models", "currentModelId")
