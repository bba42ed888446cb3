"""Formatting: from a case to what is sent and logged. Pure: no files, no network, no clock."""

from rejoinder.formatting.evidence import gather_evidence as gather_evidence
from rejoinder.formatting.globs import MOST_ALTERNATIVES as MOST_ALTERNATIVES
from rejoinder.formatting.globs import count_alternatives as count_alternatives
from rejoinder.formatting.globs import is_guideline as is_guideline
from rejoinder.formatting.globs import is_guideline_file as is_guideline_file
from rejoinder.formatting.judge import ASK_AGAIN as ASK_AGAIN
from rejoinder.formatting.judge import ASK_FOR_ONE as ASK_FOR_ONE
from rejoinder.formatting.judge import ASK_FOR_OWN as ASK_FOR_OWN
from rejoinder.formatting.judge import find_judges as find_judges
from rejoinder.formatting.judge import format_comparison as format_comparison
from rejoinder.formatting.judge import format_judge_prompt as format_judge_prompt
from rejoinder.formatting.judge import format_judge_prompts as format_judge_prompts
from rejoinder.formatting.judge import judge_digest as judge_digest
from rejoinder.formatting.judge import other_answer as other_answer
from rejoinder.formatting.prompt import diagnose_case as diagnose_case
from rejoinder.formatting.prompt import format_case as format_case
from rejoinder.formatting.prompt import lone_text as lone_text
from rejoinder.formatting.reference import diagnose_reference as diagnose_reference
from rejoinder.formatting.reference import expected_messages as expected_messages
from rejoinder.formatting.reference import reference_answer as reference_answer
from rejoinder.formatting.toon import to_toon as to_toon
