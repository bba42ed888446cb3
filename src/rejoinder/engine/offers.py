"""What tools a suite offers to models, asked of their servers without running a case."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from msgspec import Struct

from rejoinder.engine.open_tools import open_tools
from rejoinder.engine.plan import survey_plan
from rejoinder.engine.targets import OpenTargets
from rejoinder.engine.toolbox import spoils_nothing
from rejoinder.errors import RejoinderError
from rejoinder.model import Suite
from rejoinder.model.tools import Listed, McpTools, Offered, Tool, offered_name
from rejoinder.runs.options import RunOptions
from rejoinder.runs.secrets import Mask
from rejoinder.tools.base import Listing, ToolFault, read_listed
from rejoinder.tools.opened import OpenTools


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
        return await asyncio.gather(*(_offer(tools, mask, suite, tool) for suite, tool in survey.tools))
    finally:
        await tools.close()
        targets.loan.close()


async def _offer(tools: OpenTools, mask: Mask, suite: Suite, tool: Tool) -> Offer:
    """A server knows its keys, and may repeat them in whatever it says."""
    try:
        listing = await tools.perform(suite, Listing(tool), (0, ""))
        listed = read_listed(mask.hide(listing.encode()).decode())
        return Offer(tool, tuple(_offered(tool, listed)), spoils_nothing(tool, listed))
    except (ToolFault, RejoinderError) as fault:
        return Offer(tool, fault=mask.hide_text(str(fault)))


def _offered(tool: Tool, listed: tuple[Listed, ...]) -> Iterator[Offered]:
    server = tool.name if isinstance(tool, McpTools) else ""
    for one in listed:
        yield Offered(offered_name(server, one.name), one.description, one.parameters, one.name, server)
