"""The tools whose files can be imported: one row each."""

from __future__ import annotations

from msgspec import Struct


class ImportOption(Struct, frozen=True):
    """A choice that an import leaves to its user."""

    name: str
    """Without the dashes."""
    values: tuple[str, ...]
    """The first is the default."""
    help: str


class ImportKind(Struct, frozen=True):
    name: str
    """The word behind `rejoinder import`."""
    title: str
    """The files, in the plural."""
    converts: str
    """`module:function`; the function gets a SourceFile and a Workbench, and raises ImportFault."""
    patterns: tuple[str, ...]
    """The names of its files in a folder, in lower case."""
    about: str
    """The rest of its help."""
    inside: str = ""
    """The folder in which its files usually are: for a file in it, the folder above may be read, too."""
    option: ImportOption | None = None
    recognises: str = ""
    """`module:function`, where other files have such names, too: whether a SourceFile of a folder is one of its own."""


KINDS: tuple[ImportKind, ...] = (
    ImportKind(
        "promptfoo",
        "configurations of promptfoo",
        "rejoinder.imports.promptfoo.convert:convert",
        ("*promptfooconfig*.yaml", "*promptfooconfig*.yml", "*promptfooconfig*.json"),
        "Assertions become checks, prompts a prompt or variants, providers targets. JavaScript and Python of the"
        " configuration is run by the suite, through a file that is written beside it, and never by the import.",
    ),
    ImportKind(
        "agentv",
        "evals of AgentV 4 and 5",
        "rejoinder.imports.agentv.convert:convert",
        ("*.eval.yaml", "*.eval.yml", "*eval*.yaml", "*eval*.yml", "evals/*.yaml", "evals/*.yml"),
        "Tests become cases, assertions checks, and targets of .agentv, or providers, targets. Programs that grade are"
        " run by the suite, through a file that is written beside it, and never by the import.",
        inside="evals",
        recognises="rejoinder.imports.agentv.convert:is_eval",
    ),
    ImportKind(
        "skills",
        "evals of Agent Skills",
        "rejoinder.imports.skills:convert",
        ("evals.json", "*.evals.json", "*trigger*eval*.json"),
        "The suite runs an agent that has the skill, and with `-m with-skill,without-skill` one that has not, too.",
        inside="evals",
    ),
    ImportKind(
        "deepeval",
        "goldens of DeepEval",
        "rejoinder.imports.deepeval:convert",
        ("*goldens*.json", "*goldens*.jsonl", "*goldens*.csv"),
        "Goldens of one turn become cases with a prompt, scenarios become simulated users, and recorded turns become"
        " plans with a recording.",
    ),
    ImportKind(
        "inspect",
        "data sets of Inspect",
        "rejoinder.imports.inspect:convert",
        ("*.jsonl", "*.csv", "*dataset*.json"),
        "Samples become cases. Inspect names a scorer in code, so that --check says how replies are checked.",
        option=ImportOption(
            "check",
            ("auto", "includes", "match", "exact", "model_graded"),
            "Check replies as this scorer of Inspect does; auto: the target has to occur.",
        ),
    ),
)
