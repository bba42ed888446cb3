"""Formatting: from a case to what is sent and logged. Pure: no files, no network, no clock."""

from rejoinder.formatting.evidence import gather_evidence
from rejoinder.formatting.globs import MOST_ALTERNATIVES, count_alternatives, is_guideline, is_guideline_file
from rejoinder.formatting.judge import (
    ASK_AGAIN,
    ASK_FOR_ONE,
    ASK_FOR_OWN,
    find_judges,
    format_comparison,
    format_judge_prompt,
    format_judge_prompts,
    judge_digest,
    other_answer,
)
from rejoinder.formatting.prompt import diagnose_case, format_case, lone_text
from rejoinder.formatting.reference import diagnose_reference, expected_messages, reference_answer
from rejoinder.formatting.toon import to_toon

__all__ = [
    "ASK_AGAIN",
    "ASK_FOR_ONE",
    "ASK_FOR_OWN",
    "MOST_ALTERNATIVES",
    "count_alternatives",
    "diagnose_case",
    "diagnose_reference",
    "expected_messages",
    "find_judges",
    "format_case",
    "format_comparison",
    "format_judge_prompt",
    "format_judge_prompts",
    "gather_evidence",
    "is_guideline",
    "is_guideline_file",
    "judge_digest",
    "lone_text",
    "other_answer",
    "reference_answer",
    "to_toon",
]
