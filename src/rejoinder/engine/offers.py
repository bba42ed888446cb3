"""What tools a suite offers to models, asked of their servers without running a case."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from rejoinder.engine.open_tools import open_tools
from rejoinder.engine.options import RunOptions
from rejoinder.engine.plan import survey_plan
from rejoinder.engine.secrets import Mask
from rejoinder.engine.targets import OpenTargets
from rejoinder.engine.toolbox import spoils_nothing
from rejoinder.errors import RejoinderError
from rejoinder.model import Suite
from rejoinder.model.tools import Listed, McpTools, Offered, Tool, offered_name
from rejoinder.tools import Listing, OpenTools, ToolFault, read_listed


class Offer(Struct, frozen=True):
    """A declared tool with what it offers, or why it offers nothing."""

    tool: Tool
    offered: tuple[Offered, ...] = ()
    fault: str | None = None


async def list_offers(suites: list[Suite], options: RunOptions) -> list[Offer]:
    """Each declared tool once. Raises UsageError where the suites cannot be run so."""
    targets = OpenTargets(options)
    survey = survey_plan(suites, options)
    tools = open_tools(survey.tools, targets, options.trust)
    targets.lend_environment(survey.coded)
    mask = Mask(targets.collect_secrets(suites))
    try:
        offers = await asyncio.gather(*(_offer(tools, suite, tool) for suite, tool in survey.tools))
        return [one if one.fault is None else replace(one, fault=mask.hide_text(one.fault)) for one in offers]
    finally:
        await tools.close()
        targets.loan.close()


async def _offer(tools: OpenTools, suite: Suite, tool: Tool) -> Offer:
    try:
        listed = read_listed(await tools.perform(suite, Listing(tool), (0, "")))
        return Offer(tool, tuple(_offered(tool, listed)), spoils_nothing(tool, listed))
    except (ToolFault, RejoinderError) as fault:
        return Offer(tool, fault=str(fault))


def _offered(tool: Tool, listed: tuple[Listed, ...]) -> Iterator[Offered]:
    server = tool.name if isinstance(tool, McpTools) else ""
    for one in listed:
        yield Offered(offered_name(server, one.name), one.description, one.parameters, one.name, server)
