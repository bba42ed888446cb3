"""The agents known by name: how to start each, what it may see, and where it looks for its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from msgspec import Struct

from rejoinder.providers.agents.driver import Driver, Seat
from rejoinder.providers.settings import Settings


class AgentKind(Struct, frozen=True, kw_only=True):
    """`opens` is `module:callable` in this folder; the callable takes the settings of the target and a `Seat`."""

    opens: str
    command: tuple[str, ...] = ()
    """The command that starts it. The target's `executable` replaces the first word; its `command` replaces all."""
    install: str = ""
    """The command that installs it."""
    keys: tuple[str, ...] = ()
    """Variables that it gets although their names look like secrets, because it cannot work without them."""
    vendors: tuple[str, ...] = ()
    """Prefixes of variables that can give it an address; empty: any variable may."""
    variables: Mapping[str, str] = {}
    """Variables that keep it quiet, and offline except for its model. `{home}` stands for its home."""
    skills: str = ".agents/skills"
    """The folder of a workspace where it looks for skills."""
    instructions: str = "AGENTS.md"
    """The file of a workspace where it looks for instructions."""
    has_home: bool = True
    """Whether it can have its own home. An editor uses the user's home."""
    can_continue: bool = False
    """Whether a new process can continue a session stored in its home."""

    def make_home(self, home: Path) -> None:
        """Make the folders that its variables name: agents expect them to exist."""
        for value in self.variables.values():
            if value.startswith("{home}/"):
                (home / value.removeprefix("{home}/")).mkdir(parents=True, exist_ok=True)

    def driver(self, settings: Settings, seat: Seat) -> Driver:
        module, _, name = self.opens.partition(":")
        open_driver: Callable[[AgentKind, Settings, Seat], Driver]
        open_driver = getattr(import_module(f"rejoinder.providers.agents.{module}"), name)
        return open_driver(self, settings, seat)


_ACP = "acp:AcpDriver"
_OPENAI_KEYS = ("OPENAI_API_KEY", "CODEX_API_KEY")
_CLAUDE_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_CLAUDE_VENDORS = ("ANTHROPIC", "CLAUDE", "AWS", "BEDROCK", "VERTEX", "CLOUD_ML")
_OPENAI_VENDORS = ("OPENAI", "CODEX", "CHATGPT", "AZURE")
_CLAUDE_VARIABLES = {
    "CLAUDE_CONFIG_DIR": "{home}/.claude",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
_XDG = {
    "XDG_CONFIG_HOME": "{home}/.config",
    "XDG_DATA_HOME": "{home}/.local/share",
    "XDG_STATE_HOME": "{home}/.local/state",
    "XDG_CACHE_HOME": "{home}/.cache",
}
AGENTS = {
    "acp": AgentKind(opens=_ACP),
    "claude": AgentKind(
        opens="claude:ClaudeDriver",
        command=("claude",),
        install="npm install -g @anthropic-ai/claude-code",
        keys=_CLAUDE_KEYS,
        vendors=_CLAUDE_VENDORS,
        variables=_CLAUDE_VARIABLES,
        skills=".claude/skills",
        instructions="CLAUDE.md",
        can_continue=True,
    ),
    "codex": AgentKind(
        opens="codex:CodexDriver",
        command=("codex",),
        install="npm install -g @openai/codex",
        keys=_OPENAI_KEYS,
        vendors=_OPENAI_VENDORS,
        variables={"CODEX_HOME": "{home}/.codex"},
        can_continue=True,
    ),
    "pi": AgentKind(
        opens="pi:PiDriver",
        command=("pi",),
        install="npm install -g @earendil-works/pi-coding-agent",
        keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
        variables={"PI_CODING_AGENT_DIR": "{home}/.pi/agent", "PI_TELEMETRY": "0"},
        skills=".pi/skills",
        can_continue=True,
    ),
    "gemini-cli": AgentKind(
        opens=_ACP,
        command=("gemini", "--acp"),
        install="npm install -g @google/gemini-cli",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        vendors=("GEMINI", "GOOGLE", "CODE_ASSIST", "VERTEX"),
        variables={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        skills=".gemini/skills",
        instructions="GEMINI.md",
    ),
    "opencode": AgentKind(
        opens=_ACP,
        command=("opencode", "acp"),
        install="npm install -g opencode-ai",
        keys=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "OPENCODE_API_KEY"),
        variables={**_XDG, "OPENCODE_DISABLE_AUTOUPDATE": "1"},
        skills=".opencode/skills",
        can_continue=True,
    ),
    "copilot": AgentKind(
        opens=_ACP,
        command=("copilot", "--acp"),
        install="npm install -g @github/copilot",
        keys=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY"),
        vendors=("COPILOT", "GITHUB", "GH", "OPENAI", "ANTHROPIC", "AZURE"),
        variables={"COPILOT_HOME": "{home}/.copilot", "COPILOT_AUTO_UPDATE": "false"},
        skills=".github/skills",
        can_continue=True,
    ),
    "claude-acp": AgentKind(
        opens=_ACP,
        command=("claude-agent-acp",),
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        keys=_CLAUDE_KEYS,
        vendors=_CLAUDE_VENDORS,
        variables=_CLAUDE_VARIABLES,
        skills=".claude/skills",
        instructions="CLAUDE.md",
        can_continue=True,
    ),
    "vscode": AgentKind(opens="vscode:VsCodeDriver", command=("code", "chat"), has_home=False),
    "vscode-insiders": AgentKind(opens="vscode:VsCodeDriver", command=("code-insiders", "chat"), has_home=False),
    "codex-acp": AgentKind(
        opens=_ACP,
        command=("codex-acp",),
        install="npm install -g @zed-industries/codex-acp",
        keys=_OPENAI_KEYS,
        vendors=_OPENAI_VENDORS,
        variables={"CODEX_HOME": "{home}/.codex"},
        can_continue=True,
    ),
}


def keys_for(agent: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The keys that an agent gets, by variable name."""
    return {name: value for name in AGENTS[agent].keys if (value := environment.get(name))}
