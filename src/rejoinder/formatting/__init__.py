"""Formatting: from a case to what is sent and logged. Pure: no files, no network, no clock."""

from rejoinder.formatting.globs import MOST_ALTERNATIVES, count_alternatives, is_guideline
from rejoinder.formatting.judge import (
    find_judges,
    format_judge_prompt,
    format_judge_prompts,
    reference_answer,
)
from rejoinder.formatting.prompt import diagnose_case, format_case, lone_text
from rejoinder.formatting.toon import to_toon

__all__ = [
    "MOST_ALTERNATIVES",
    "count_alternatives",
    "diagnose_case",
    "find_judges",
    "format_case",
    "format_judge_prompt",
    "format_judge_prompts",
    "is_guideline",
    "lone_text",
    "reference_answer",
    "to_toon",
]
