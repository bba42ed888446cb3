"""`vscode`, `vscode-insiders`: the editor's `chat` command, as AgentV has it.

The command opens a window, returns at once and prints nothing. So the prompt asks for the reply in a file, and the
provider waits for that file. The window has no session that could be named: later turns include a transcript.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from rejoinder.providers.agents.commands import added_words, command_of, flag
from rejoinder.providers.agents.driver import AgentTurn, Clock, Seat, agent_error
from rejoinder.providers.agents.kinds import AgentKind
from rejoinder.providers.agents.workspace import CHAT_FOLDER
from rejoinder.providers.settings import Settings
from rejoinder.user_code.processes import Command, run_process
from rejoinder.user_code.programs import ProcessFault

LONGEST_REPLY = 10 << 20
LAUNCH_S = 60.0
"""Time limit of the command that opens the window, in seconds."""
_LOOK_S = 0.1
_QUIET_S = 1.0
"""A reply file is complete after it has not grown for this many seconds."""
_NOTE = "a window of the editor answers; it stays open, and its usage is estimated"
_ASK = """Follow the instructions in [{name}]({prompt}).
Write your whole answer, and nothing else, into the file [{reply_name}]({reply}) at the end, in one piece."""


class VsCodeDriver:
    def __init__(self, kind: AgentKind, settings: Settings, seat: Seat) -> None:
        self._words = command_of(kind, settings)
        self._added = added_words(settings)
        self._mode = settings.text("mode") or "agent"
        self._starts = str(settings.values.get("dry_run") or "").lower() not in ("true", "1", "yes")
        self._seat = seat
        self._turn = 0
        self._said: list[tuple[str, str]] = []

    async def ask(self, prompt: str, clock: Clock) -> AgentTurn:
        self._turn += 1
        folder = self._seat.workspace / CHAT_FOLDER
        folder.mkdir(exist_ok=True)
        asked, reply = folder / f"prompt-{self._turn}.md", folder / f"reply-{self._turn}.md"
        asked.write_text(self._document(prompt), encoding="utf-8")
        if not self._starts:
            return AgentTurn(text=f"dry run: nothing was started; the prompt is:\n\n{prompt}", stop_reason="dry_run")
        await self._open_window(asked, reply)
        text = await self._wait_for(reply, clock)
        self._said.append((prompt, text))
        return AgentTurn(text=text, stop_reason="end_turn", notes=(_NOTE,) if self._turn == 1 else ())

    async def close(self) -> None:
        """The window is the user's own."""

    def _document(self, prompt: str) -> str:
        """The prompt, below a transcript of earlier turns: a new chat does not know them."""
        before = "".join(f"@[User]:\n{asked}\n\n@[Assistant]:\n{said}\n\n" for asked, said in self._said)
        return f"{before}@[User]:\n{prompt}\n" if before else f"{prompt}\n"

    async def _open_window(self, asked: Path, reply: Path) -> None:
        text = _ASK.format(name=asked.name, prompt=asked.as_uri(), reply_name=reply.name, reply=reply.as_uri())
        words = (*self._words, *flag("-m", self._mode), *self._added, text)
        command = Command(
            words=words,
            folder=self._seat.workspace,
            environment=self._seat.environment,
            timeout_s=LAUNCH_S,
            called="editor's command",
        )
        try:
            ended = await run_process(command)
        except ProcessFault as fault:
            hint = "; name the editor's command as `executable`" if fault.trouble == "start" else ""
            raise agent_error(f"{fault}{hint}", ends_target=fault.trouble == "start") from None
        if ended.exit_code:
            said = ended.last_words
            raise agent_error(f"the editor's command {ended.how()}{f': {said}' if said else ''}")

    async def _wait_for(self, reply: Path, clock: Clock) -> str:
        loop = asyncio.get_running_loop()
        size, since = -1, loop.time()
        while True:
            found = reply.stat().st_size if reply.is_file() else 0
            if found != size:
                size, since = found, loop.time()
            if size > LONGEST_REPLY:
                raise agent_error("the editor wrote more than 10 MiB as its reply")
            if size and loop.time() - since >= _QUIET_S:
                return reply.read_text(encoding="utf-8", errors="replace").rstrip("\n")
            if clock.until is not None and loop.time() >= clock.until:
                raise agent_error("the editor wrote no reply in time", type="timeout")
            await asyncio.sleep(_LOOK_S)
