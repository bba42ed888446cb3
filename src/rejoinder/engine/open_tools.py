"""Makes the tools of a run ready: variables filled in, secrets known, and no key on its way to a foreign address."""

from __future__ import annotations

from collections.abc import Iterable

from rejoinder.engine.options import Trust
from rejoinder.engine.targets import OpenTargets
from rejoinder.model import Suite
from rejoinder.model.tools import McpTools, Tool
from rejoinder.project import Environment
from rejoinder.tools import OpenTools


def open_tools(declared: Iterable[tuple[Suite, Tool]], targets: OpenTargets, trust: Trust) -> OpenTools:
    """No server is started yet. The targets know the tools' secrets afterwards. Raises UsageError."""
    tools, finder = OpenTools(), targets.exchange.secret_finder
    for suite, tool in declared:
        if not isinstance(tool, McpTools):
            continue
        environment = targets.environment_of(suite)
        ready, secrets = tools.prepare(suite, tool, environment)
        for value, name in secrets.items():
            finder.add(value, name)
        # As they are filled in: what goes into a header of a key is one, whatever its variable is called.
        settings = {"headers": ready.headers, "env": ready.env, "url": ready.url, "args": [*ready.args]}
        finder.add_settings(f"MCP server {tool.name}", settings)
        if ready.url and isinstance(environment, Environment) and environment.files and not trust.trust_env:
            from rejoinder.engine.env_trust import refuse_foreign_server

            refuse_foreign_server(tool, ready, environment, {**targets.secrets, **suite.secrets})
    return tools
