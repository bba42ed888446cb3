"""Options that say what files from elsewhere may do."""

from __future__ import annotations

import click

trust_option = click.option(
    "--trust",
    is_flag=True,
    help="Use the run folder's own copy of its suites, wherever the folder comes from.",
)
no_code_option = click.option("--no-code", is_flag=True, help="Refuse suites that run code of the project.")
trust_env_option = click.option(
    "--trust-env", is_flag=True, help="Send keys to addresses that come from a .env file, whatever file has the keys."
)
