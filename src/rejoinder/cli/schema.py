"""`rejoinder schema`"""

from __future__ import annotations

import click

from rejoinder.cli.output import write_data
from rejoinder.suite.discover import FileKind
from rejoinder.suite.schema import schema_for


@click.command("schema")
@click.argument("kind", type=click.Choice(["suite", "targets", "config"]), default="suite")
def command(kind: FileKind) -> None:
    """Print the JSON Schema of suites (or of targets, or of the configuration).

    It is the schema that `rejoinder validate` itself uses. Editors read it from the first line that `rejoinder init`
    writes into YAML files.
    """
    write_data(schema_for(kind))
