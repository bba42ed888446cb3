"""The group of commands. One-line helps are data, so that `--help` imports no command's module."""

from __future__ import annotations

import errno
import importlib
import io
import sys
from typing import Any

import click

from rejoinder._version import __version__
from rejoinder.cli.given import GIVEN
from rejoinder.errors import RejoinderError

COMMANDS = {
    "init": "Write a first suite for your model, function, service or agent.",
    "validate": "Check suites and targets without sending anything.",
    "prompt": "Show exactly what would be sent, without sending it.",
    "targets": "List targets and what they lack; try them with one call.",
    "models": "List models and their prices.",
    "tools": "List the tools that models are offered, and what they take.",
    "run": "Run suites: send prompts, check replies, follow up on failures.",
    "resume": "Continue a run that was interrupted or killed.",
    "show": "Show a recorded run.",
    "report": "Write a run, or two runs side by side, as one HTML file.",
    "compare": "Compare runs case by case: better, worse, or cannot tell.",
    "export": "Write a recorded run in the format of another tool.",
    "import": "Make suites from files of other tools, or recordings.",
    "verify": "Check that nothing in a recorded run was changed or lost.",
    "replay": "Play a recorded run again, without any call.",
    "fork": "Fork a recorded conversation at a turn and change what follows.",
    "grade": "Grade the replies of a recorded run with other checks.",
    "merge": "Merge the parts of a sharded run into one.",
    "baseline": "Save, list and delete baselines, which runs are compared with.",
    "gate": "Decide by rules whether a run is good enough.",
    "runs": "List, filter, tag and delete recorded runs.",
    "view": "Open the viewer in a browser; also accepts runs over HTTP.",
    "status": "Show queued and running runs on a server.",
    "stop": "Stop a run at a server.",
    "suites": "Save suites under names, which `run` takes from any folder.",
    "var": "Save variables that all your suites can use.",
    "secret": "Save secrets that all your suites can use; none is printed.",
    "ci": "Publish a run's results to a CI server.",
    "cache": "Show and clear the answers that `run --cache` has stored.",
    "bench": "Fetch and run published benchmarks: MT-Bench, SYCON, MINT, IFEval.",
    "judge": "Test a judge against human labels.",
    "trust": "Allow .env files to set addresses that receive your keys.",
    "schema": "Print the JSON Schema of suites, targets or configuration.",
    "completion": "Print the completion script of a shell.",
}
"""Every command in the order of a first day with the tool. Its module has the same name."""
_MODULES = {"import": "import_"}
"""Modules of commands whose name is a word of Python's."""

ALIASES = {"eval": "run", "bless": "baseline save"}
"""Names of commands of AgentV and of earlier versions. They work, and `--help` does not list them."""

_NO_COMMAND: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""What click raises for a group without a command; 8.1 shows the help by itself."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        name, _, part = ALIASES.get(cmd_name, cmd_name).partition(" ")
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"rejoinder.cli.{_MODULES.get(name, name)}").command
        return command.commands[part] if part and isinstance(command, click.Group) else command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args[:1] == ["help"]:  # `help run` is `run --help`
            args = [*args[1:], "--help"]
        given = list(args)
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            raise _explained(error, given) from None
        context.meta[GIVEN] = given
        return context

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in (*COMMANDS, *ALIASES) and not args[0].startswith("-"):
            from rejoinder.cli.mistakes import no_command

            raise no_command(args, list(COMMANDS))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _explained(error, ctx.meta[GIVEN]) from None


def _explained(error: click.UsageError, given: list[str]) -> click.UsageError:
    """A group without a command is no mistake: it shows its help."""
    if error.ctx is not None and isinstance(error, _NO_COMMAND):
        from rejoinder.cli.output import echo_text

        echo_text(error.ctx.get_help())
        error.ctx.exit()
    from rejoinder.cli.mistakes import explain

    return explain(error, given)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `rejoinder init`. Every command explains itself with --help.",
)
@click.version_option(__version__, message="rejoinder %(version)s")
def cli() -> None:
    """Test language models and agents in conversation: ask, check, push back, measure recovery."""


def run() -> None:
    """Run a command; a user's mistake is shown as one, with exit code 2, and never as a traceback."""
    from rejoinder.cli.streams import guard_streams, lost_output

    guard_streams()
    try:
        code = cli.main(prog_name="rejoinder", standalone_mode=False)
    except SystemExit as ended:
        code = ended.code
    except (RejoinderError, click.ClickException, click.Abort, KeyboardInterrupt, OSError) as error:
        code = _show(error)
    if (lost := lost_output()) is not None:
        code = _show(lost)
    sys.exit(code)


def _show(error: RejoinderError | click.ClickException | click.Abort | KeyboardInterrupt | OSError) -> int:
    """Say why a command ended; its exit code. Of errors of the operating system only a disk that takes no more is none
    of ours."""
    from rejoinder.cli.output import echo, show_error, show_message

    if isinstance(error, OSError):
        from rejoinder.cli.streams import LostOutput

        if error.errno not in _FULL:
            raise error
        error = LostOutput(str(error.filename or "a file"), error)
    if isinstance(error, click.Abort | KeyboardInterrupt):
        echo("interrupted", err=True)
        return 130
    if isinstance(error, RejoinderError):
        show_error(error)
    else:
        message = io.StringIO()
        error.show(message)
        show_message(message.getvalue().removesuffix("\n"))
    return error.exit_code
