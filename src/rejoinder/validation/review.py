"""Suites for a run: loaded, and reviewed for problems that formatting finds in their cases (text that looks like a
marker, empty files, conversations without words, judges without anything to compare with).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rejoinder.checks.registry import grade_words
from rejoinder.errors import Severity, SuiteError
from rejoinder.formatting.globs import MOST_ALTERNATIVES, count_alternatives, is_guideline_file
from rejoinder.formatting.judge import other_answer
from rejoinder.formatting.prompt import (
    diagnose_case,
    diagnose_reference,
    expected_messages,
    lone_text,
    needs_markers,
    reference_answer,
)
from rejoinder.formatting.turns import Turn, has_marker_line, take_turns
from rejoinder.model import (
    AnyCheck,
    Case,
    Compare,
    Complete,
    Diagnostic,
    Faithful,
    FilePart,
    FollowUp,
    Formatting,
    Level,
    Problem,
    Suite,
    TextPart,
    User,
    Verdict,
    answers_in,
    answers_of,
    follow_ups_of,
    levels_of,
    pictures_of,
    walk_case,
    walk_level,
)
from rejoinder.project.files import in_quotes
from rejoinder.suite.agentv_files import as_warnings, is_of_agentv
from rejoinder.suite.cases import SAYING
from rejoinder.suite.context import LoadOptions
from rejoinder.suite.load import Loaded, read_suite
from rejoinder.suite.pruning import ANYTHING
from rejoinder.suite.source import CasePlace, Source, SuiteText
from rejoinder.suite.walk import Built
from rejoinder.validation.lost_conversations import find_lost_conversations
from rejoinder.validation.lost_system_prompts import find_lost_system_prompts
from rejoinder.validation.roles import can_see, judging_targets, names_asked
from rejoinder.words.numbers import beginning, count

_REFERENCE_WORDS = {
    "empty-file": "the file {file} is empty, so judges see nothing of it",
    "no-assistant-message": "no message has `role: assistant`; judges are shown this last one as the reference answer",
}
_LONGEST_SHOWN = 60


def load_suites(files: Iterable[Path | SuiteText], options: LoadOptions) -> tuple[list[Suite], list[Problem]]:
    """The suites and the warnings about them. Raises SuiteError with every mistake of every file."""
    review = review_labelled_case if options.labelled else review_case
    loaded = [read_suite(file, options, review=review) for file in files]
    problems = [problem for suite in loaded for problem in all_problems(suite, options)]
    if any(problem.severity == "error" for problem in problems):
        raise SuiteError(problems)
    return [one.suite for one in loaded if one.suite is not None], problems


def all_problems(loaded: Loaded, options: LoadOptions, problems: Iterable[Problem] = ()) -> list[Problem]:
    """All problems of a suite in document order: from loading, the given ones, problems of its targets and patterns,
    and conversations and system prompts that they would lose."""
    everything = [*loaded.problems, *problems]
    if loaded.suite is not None and loaded.source is not None:
        everything += _review_patterns(loaded.suite, loaded.source)
        everything += find_lost_conversations(loaded.suite, loaded.targets, options.targets)
        everything += find_lost_system_prompts(loaded.suite, loaded.targets, options.targets)
        everything += _review_definitions(loaded, loaded.suite, options)
        if loaded.suite.pictures and not options.only_format:
            everything += _review_blind_judges(loaded.suite, loaded.source, options)
    return sorted(everything, key=lambda problem: (problem.file, problem.line, problem.column))


def _review_definitions(loaded: Loaded, suite: Suite, options: LoadOptions) -> Iterator[Problem]:
    """Faults in the definitions of targets: errors for used targets, warnings for others. AgentV's own targets are
    ignored unless the suite uses them."""
    faults = loaded.targets.faults if loaded.targets is not None and not options.only_format else {}
    if not any(faults.values()):
        return
    used: set[str] = set()
    for case in suite.cases:
        for candidate in options.targets or case.targets:
            used.update(names_asked(suite, case, candidate))
    for name, found in faults.items():
        if name in used:
            yield from found
        elif not any(is_of_agentv(problem.file) for problem in found):
            yield from as_warnings(found)


def _review_blind_judges(suite: Suite, source: Source, options: LoadOptions) -> Iterator[Problem]:
    """One warning for each judge that cannot be shown the pictures of a case that it judges."""
    told: set[str] = set()
    for case in suite.cases:
        if not any(True for _ in pictures_of(case)):
            continue
        for candidate in options.targets or case.targets:
            for judge in judging_targets(suite, case, candidate):
                if judge.name not in told and not can_see(judge):
                    told.add(judge.name)
                    message = (
                        f"the judge `{judge.name}` ({judge.provider}) cannot see the pictures of this case: its prompt"
                        " says so, and it can only judge the texts"
                    )
                    yield source.problem("blind-judge", case.at, message, severity="warning")


def _review_patterns(suite: Suite, source: Source) -> Iterator[Problem]:
    for position, pattern in enumerate(suite.formatting.guideline_patterns):
        if count_alternatives(pattern) > MOST_ALTERNATIVES:
            message = f"this pattern has more than {MOST_ALTERNATIVES} alternatives; write several patterns"
            yield source.problem("out-of-range", f"guideline_patterns[{position}]", message)


def review_case(built: Built, source: Source, suite: Suite) -> Iterator[Problem]:
    """Problems that formatting finds in a case, and problems of its judges."""
    yield from review_labelled_case(built, source, suite)
    case = built.rest
    if case is None:
        return
    yield from _review_contexts(case, CasePlace(case.at, built.source, source), built)
    if built.explains("expected_messages"):
        return
    compared = [check for check in walk_case(case) if isinstance(check, Compare) and not check.other_target]
    reference = reference_answer(expected_messages(case, suite.formatting)) if compared else ""
    for check in compared:
        if not other_answer(check, reference).strip():
            message = "nothing to compare with: add `reply` or `reply_of`, or `expected_messages` to the case"
            yield CasePlace(case.at, built.source, source).problem("missing-field", check.at, message)
    if any(problem.severity == "error" for problem in built.problems):
        return  # some of its checks may not be usable
    yield from _review_course(case, CasePlace(case.at, built.source, source))


def _review_contexts(case: Case, place: CasePlace, built: Built) -> Iterator[Problem]:
    """Ready-made judges without anything to judge by."""
    if built.explains("context", "outcome", "turns"):
        return
    steps = case.plan.steps if case.plan is not None else ()
    of_levels = [(step.level, step.context, step.expected) for step in steps] or [(case.level, None, None)]
    wanted = [(check, own, expected) for level, own, expected in of_levels for check in walk_level(level)]
    wanted += [(check, None, None) for over in case.conversation_checks for check in over.checks]
    for check, own, expected in wanted:
        context = case.context if own is None else own
        has_context = any(text.strip() for text in context)
        message = ""
        if isinstance(check, Faithful) and not has_context:
            message = "`faithful` needs a `context` in the case or the turn: the texts that the reply has to keep to"
        elif isinstance(check, Complete) and not (has_context or case.outcome or case.expected_messages or expected):
            message = "`complete` needs an `outcome`, an expected answer or a `context` to tell what is missing"
        if message:
            yield place.problem("missing-field", check.at, message)


def _review_course(case: Case, place: CasePlace) -> Iterator[Problem]:
    """Words that give the answer away, and checks of turns that cannot exist."""
    for level in levels_of(case):
        for follow_up, check in _given_away(level, case):
            message = (
                f"this follow-up holds the answer: its own words pass {check}, so a model that repeats them recovers;"
                " leave the answer out, or label it `hint: answer`"
            )
            yield place.problem("answer-in-followup", follow_up.at, message, severity="warning")
    if case.user is not None and (check := _answer_in_goal(case, case.user)) is not None:
        message = (
            f"this goal passes {check}: a user that states its goal gives the answer away and invalidates"
            " the conversation; put what it may say under `knows`"
        )
        yield place.problem("answer-in-goal", f"{case.user.at}.goal", message, severity="warning")
    for turn, at, most in _unreachable_turns(case):
        message = f"there is no turn {turn}: the plan has {count(most, 'turn')}"
        yield place.problem("unreachable-turn", at, message, severity="warning")


def _unreachable_turns(case: Case) -> Iterator[tuple[int, str, int]]:
    """Turns that the case's own conversation checks name and its plan does not have: the turn, its place, and the
    number of turns. Follow-ups add turns, unless only the last reply of each step counts."""
    if case.plan is None:
        return
    most, goes_on = len(case.plan.steps), any(any(follow_ups_of(level)) for level in levels_of(case))
    for over in case.conversation_checks:
        if not over.at.startswith(f"{case.at}.") or (goes_on and not over.final):
            continue
        if over.turns is not None and over.turns[0] > most:
            yield over.turns[0], f"{over.at.rpartition('.')[0]}.turns", most
        if over.turn is not None and over.turn > most:
            yield over.turn, f"{over.at}.turn", most


def _answer_in_goal(case: Case, user: User) -> str | None:
    """The check that the goal of a simulated user passes, if the user is not meant to reveal the answer."""
    told = _passed_by(tuple(answers_in(case.level)), case, user.goal)
    kept = _passed_by(tuple(check for check, _ in told), case, f"{user.opening}\n{user.knows}")
    known = [check for check, _ in kept]
    return next((_shown(verdict) for check, verdict in told if check not in known), None)


def _passed_by(checks: tuple[AnyCheck, ...], case: Case, words: str) -> list[tuple[AnyCheck, Verdict]]:
    """The text checks that the words pass and empty text does not."""
    verdicts = zip(checks, grade_words(checks, case, words), grade_words(checks, case, ""), strict=True)
    return [(check, one) for check, one, empty in verdicts if one.passed and not empty.passed]


def _shown(verdict: Verdict) -> str:
    check = verdict.check
    return f"`{check if len(check) <= _LONGEST_SHOWN else f'{check[:_LONGEST_SHOWN]}...'}`"


def _given_away(level: Level, case: Case) -> Iterator[tuple[FollowUp, str]]:
    """The follow-ups whose words, as far as known, pass a text check of their own level; and that check. Excludes
    follow-ups that are marked so, the ready-made ones, and words that are said again."""
    for follow_up in follow_ups_of(level):
        is_new = not follow_up.again or not follow_up.at.endswith(".prompt")
        if follow_up.hint != "answer" and is_new and not follow_up.at.endswith(".ready_followups"):
            words = "".join(piece for piece in follow_up.prompt if isinstance(piece, str))
            own = (item.check for item in follow_up.level.items if item.check is not None)
            checks = tuple(answer for check in own for answer in answers_of(check))
            for _, verdict in _passed_by(checks, case, words)[:1]:
                yield follow_up, _shown(verdict)
        yield from _given_away(follow_up.level, case)


def review_labelled_case(built: Built, source: Source, suite: Suite) -> Iterator[Problem]:
    """Review a case without its judges: labelled replies bring their own references."""
    case = built.rest
    if case is None:
        return
    place = CasePlace(case.at, built.source, source)
    for diagnostic in diagnose_reference(case):
        if diagnostic.code in _REFERENCE_WORDS:
            message = _REFERENCE_WORDS[diagnostic.code].format(file=in_quotes(diagnostic.path or ""))
            yield place.problem(diagnostic.code, diagnostic.at, message, severity="warning")
    begins_later = case.user is not None and not case.messages
    if not begins_later and not _is_plain(case, suite.formatting):
        yield from _review_messages(built, case, place, suite.formatting)


def _review_messages(built: Built, case: Case, place: CasePlace, options: Formatting) -> Iterator[Problem]:
    turns = take_turns(case.messages, options)
    explained = built.explains(*SAYING)
    for diagnostic in diagnose_case(case, turns, options):
        if diagnostic.code == "file-not-found" or (diagnostic.code == "no-visible-content" and explained):
            continue  # loading has said so, or why
        refused = diagnostic.code == "marker-in-text" and options.marker_in_text == "error"
        severity: Severity = "error" if refused else "warning"
        message = _DIAGNOSTIC_WORDS[diagnostic.code](case, diagnostic, options)
        yield place.problem(diagnostic.code, diagnostic.at, message, severity=severity)
    message = _no_user_message(case, turns.turns, options, built)
    if message:
        yield place.problem("no-user-message", case.messages[0].at, message, severity="warning")


def _is_plain(case: Case, options: Formatting) -> bool:
    """Whether it is a single user text. Then there is nothing to report, unless it looks like a marker."""
    lone = lone_text(case)
    return lone is not None and not has_marker_line(lone.text, options.marker)


def _no_user_message(case: Case, turns: tuple[Turn, ...], options: Formatting, built: Built) -> str | None:
    """The message if no user speaks. If nothing is visible at all, or a file is missing, that is already reported."""
    if not case.messages or not built.touched.isdisjoint((*SAYING, ANYTHING)):
        return None
    if not any(message.role == "user" for message in case.messages):
        return "no user message: most models expect one"
    visible = [turn.role for turn in turns if turn.visible]
    if not visible or built.explains("input_messages"):
        return None
    is_alone = visible == ["system"] and not needs_markers(turns, options)
    if is_alone or not any(turn.role == "user" and turn.shown for turn in turns):
        return "the user's message has no text of its own: most models expect one that has"
    return None


def _marker_words(case: Case, diagnostic: Diagnostic, options: Formatting) -> str:
    part = next(part for message in case.messages for part in message.parts if part.at == diagnostic.at)
    text = (part.text or "") if isinstance(part, TextPart | FilePart) else ""
    line = next((line.strip() for line in text.splitlines() if has_marker_line(line, options.marker)), "")
    shown = beginning(line, _LONGEST_SHOWN)
    where = f" of {in_quotes(part.path)}" if isinstance(part, FilePart) else ""
    words = f"the line `{shown}`{where} looks like a role marker"
    if options.marker_in_text == "escape":
        return f"{words}; it is sent with a backslash before it"
    return f"{words} and could be mistaken for a turn; set `formatting.marker_in_text: escape` to make it safe"


def _empty_words(case: Case, _diagnostic: Diagnostic, options: Formatting) -> str:
    parts = [part for message in case.messages for part in message.parts if isinstance(part, FilePart)]
    if any(part.text and is_guideline_file(part, options.guideline_patterns) for part in parts):
        return "only guidelines are left to send; add the question as text"
    return "this conversation is empty; nothing would be sent"


_DIAGNOSTIC_WORDS: dict[str, Callable[[Case, Diagnostic, Formatting], str]] = {
    "marker-in-text": _marker_words,
    "empty-file": lambda _, found, __: f"the file {in_quotes(found.path or '')} is empty, so nothing of it is sent",
    "no-visible-content": _empty_words,
}
