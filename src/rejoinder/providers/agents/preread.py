"""The first prompt of an agent: links to the files of the case, then the question.

AgentV's form: a link for each guideline and each file, and the question below `[[ ## user_query ## ]]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rejoinder.model import Brief

QUERY = "[[ ## user_query ## ]]"


def write_preread(brief: Brief, places: Mapping[str, Path]) -> str:
    """`places`: where each file is, by its path in the transcript."""
    guidelines = [file.path for file in brief.files if file.guideline]
    others = [file.path for file in brief.files if not file.guideline]
    parts: list[str] = []
    if guidelines:
        parts.append(f"{_list('Read all guideline files:', guidelines, places)}\nKeep to them.")
    if others:
        parts.append(_list("Read all attachment files:", others, places))
        parts.append(
            'In the user query `<file: path="P">` stands for the attached file P, as it is listed here. '
            "Paths start from the working folder."
        )
    if brief.system_prompt:
        parts.append(brief.system_prompt)
    if not parts:
        return brief.prompt
    return "\n\n".join((*parts, f"{QUERY}\n{brief.prompt}"))


def _list(heading: str, paths: list[str], places: Mapping[str, Path]) -> str:
    return "\n".join((heading, *(f"* [{path}]({places[path].as_uri()})" for path in paths)))
