"""An agent's environment variables: no secrets except its own keys, a home of its own, and nothing about an outer
agent.
"""

from __future__ import annotations

from collections.abc import Mapping

from rejoinder.providers.agents.agent_settings import AgentSettings
from rejoinder.providers.agents.kinds import AGENTS, AgentKind
from rejoinder.providers.agents.workspace import Scratch
from rejoinder.user_code.variables import given_to_command

_OF_AN_AGENT_OUTSIDE = frozenset(
    (
        *("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_PROJECT_DIR", "CODEX_SANDBOX"),
        *("CODEX_THREAD_ID", "GEMINI_CLI", "OPENCODE", "OLDPWD"),
    )
)
"""Variables of an agent that runs rejoinder: that agent is not under test."""
_HOMES = frozenset(name for kind in AGENTS.values() for name, value in kind.variables.items() if "{home}" in value) | {
    "OPENCODE_CONFIG",
    "OPENCODE_CONFIG_CONTENT",
}
"""Variables that lead to the user's own settings and logins, besides HOME."""
_COMMITS = {"GIT_AUTHOR_NAME": "agent", "GIT_AUTHOR_EMAIL": "agent@localhost"}
"""In an empty home git does not know who commits."""


def environment_for(
    kind: AgentKind, settings: AgentSettings, scratch: Scratch, environment: Mapping[str, str]
) -> dict[str, str]:
    own = settings.variables
    left_out = _OF_AN_AGENT_OUTSIDE | _HOMES if settings.has_own_home else _OF_AN_AGENT_OUTSIDE
    kept = {name: value for name, value in environment.items() if name not in left_out}
    keys = {name: environment[name] for name in kind.keys if environment.get(name)}
    given = given_to_command(kept, {**keys, **own}).variables
    homes = {name: value for name, value in kind.variables.items() if "{home}" not in value}
    if settings.has_own_home:
        homes = {name: value.replace("{home}", str(scratch.home)) for name, value in kind.variables.items()}
        homes |= {"HOME": str(scratch.home), "TMPDIR": str(scratch.temporary)}
    commits = {**_COMMITS, **{name.replace("AUTHOR", "COMMITTER"): value for name, value in _COMMITS.items()}}
    fixed = {"PWD": str(scratch.workspace), "GIT_CEILING_DIRECTORIES": str(scratch.path)}
    return {**commits, **given, **homes, **fixed, **own}
