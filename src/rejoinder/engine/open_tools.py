"""Makes the tools of a run ready: variables filled in, secrets known, and no key on its way to a foreign address."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rejoinder.engine.targets import OpenTargets
from rejoinder.model import Suite
from rejoinder.model.tools import McpTools, Tool
from rejoinder.providers.base import Handed
from rejoinder.runs.options import Trust
from rejoinder.tools.opened import OpenTools


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
        if environment.files and not trust.trust_env:
            from rejoinder.engine import env_trust

            secrets = {**targets.secrets, **suite.secrets}
            if ready.url:
                env_trust.refuse_foreign_server(tool, ready, environment, secrets)
            else:
                given = msgspec.to_builtins(tool), msgspec.to_builtins(ready)
                env_trust.refuse_foreign_program(f"MCP server `{tool.name}`", given, Handed(), environment, secrets)
    return tools
