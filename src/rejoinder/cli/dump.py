"""`--dump-prompts`: what is sent first, a file a case."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from rejoinder.cli.outgoing import schema_blocks
from rejoinder.engine.known_secrets import known_secrets
from rejoinder.engine.plan import plan, survey_plan
from rejoinder.errors import UsageError, reason_of
from rejoinder.model import Suite
from rejoinder.run_files import write_whole
from rejoinder.runs.options import RunOptions
from rejoinder.runs.secrets import Mask


def dump_prompts(suites: list[Suite], options: RunOptions, folder: Path) -> None:
    survey = survey_plan(suites, options)
    mask = Mask(known_secrets(suites, survey.targets, survey.tools))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        used: dict[str, int] = {}
        for job in plan(suites, options):
            if job.trial == 1:
                prepared = job.prepared
                name = re.sub(r"[^\w.-]+", "_", f"{prepared.case.id}.{prepared.target.name}")
                blocks = [f"--- {message.role} ---\n{message.content}" for message in prepared.prompt.messages]
                schema = prepared.case.output_schema
                blocks += schema_blocks(None if schema is None else msgspec.json.decode(schema.document))
                text = "\n".join(blocks) if prepared.target.mode == "lm" else prepared.prompt.question
                used[name] = used.get(name, 0) + 1
                number = f"-{used[name]}" if used[name] > 1 else ""  # other suites have cases of the same name
                with write_whole(folder / f"{name}{number}.txt") as stream:
                    stream.write(f"{mask.hide_text(text)}\n".encode())
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {reason_of(error)}") from None
