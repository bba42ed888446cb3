"""`rejoinder completion`"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from rejoinder.cli.app import cli
from rejoinder.cli.output import write_machine


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  eval "$(rejoinder completion bash)"      in ~/.bashrc
    zsh:   eval "$(rejoinder completion zsh)"       in ~/.zshrc
    fish:  rejoinder completion fish > ~/.config/fish/completions/rejoinder.fish
    """
    script = get_completion_class(shell)
    assert script is not None, "click knows the shells that the choice above offers"
    write_machine([script(cli, {}, "rejoinder", "_REJOINDER_COMPLETE").source(), "\n"])
