"""`rejoinder view`"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click
from msgspec import structs

from rejoinder.cli.grouping import Values, grouped
from rejoinder.cli.output import echo
from rejoinder.errors import UsageError
from rejoinder.project.folders import find_root
from rejoinder.server.settings import LOOPBACK, PORT, SHORTEST_TOKEN, TOKEN_VARIABLE, Settings

if TYPE_CHECKING:
    import socket


def _settings(values: Values) -> Settings:
    port = values.pop("port")
    return Settings(root=find_root(Path.cwd(), Path.cwd()), port=PORT if port is None else port, **values)


@click.command("view")
@grouped(
    "settings",
    _settings,
    host=click.option("--host", default="127.0.0.1", show_default=True, metavar="H", help="Listen on this address."),
    port=click.option(
        "--port",
        type=click.IntRange(0, 65535),
        metavar="N",
        help=f"Listen on this port.  [default: {PORT}, or a free one]",
    ),
    token=click.option(
        "--token",
        envvar=TOKEN_VARIABLE,
        metavar="T",
        help=f"Ask for this token; needed on another address than this machine's own.  [env: {TOKEN_VARIABLE}]",
    ),
    read_only=click.option("--read-only", is_flag=True, help="Show runs, and change and start nothing."),
    allow_targets=click.option(
        "--allow-targets",
        is_flag=True,
        help="Let suites from elsewhere bring targets, addresses, variables and secrets.",
    ),
    allow_code=click.option("--allow-code", is_flag=True, help="Let suites from elsewhere run code and commands."),
    jobs=click.option(
        "--jobs",
        type=click.IntRange(1, 64),
        default=1,
        show_default=True,
        help="Run N queued runs at the same time.",
    ),
)
@click.option("--no-browser", is_flag=True, help="Do not open the browser.")
@click.pass_context
def command(ctx: click.Context, settings: Settings, no_browser: bool) -> None:
    """Open the viewer of the project's runs in a browser; also accepts runs over HTTP.

    It listens only on this machine unless --host names another address; then --token is required. Posted runs are
    queued and run one after the other. Queued runs are kept when the server ends. Ctrl-C ends it.
    """
    _check(settings)
    given = ctx.params.get("port") is not None
    _refuse_missing()
    from rejoinder.server.app import make_app
    from rejoinder.server.peers import Peers
    from rejoinder.server.serving import listen, serve

    os.chdir(settings.root)  # suites and the names of files are seen from there, as in the runs' processes
    listening = listen(settings.host, settings.port, exactly=given)
    wanted, settings = settings.port, structs.replace(settings, port=_port_of(listening))
    app = make_app(settings)
    peers = Peers(listening) if settings.token is None else None
    if wanted not in (settings.port, 0):
        echo(f"port {wanted} is taken; this is {settings.port}", err=True)
    echo(f"viewer at {settings.address}")
    if settings.token is not None:
        echo("in a browser, add ?token= and the token to the address once")
    if peers is not None and not peers.can_tell:
        echo("every user of this machine can open it; --token keeps others out")
    echo("Ctrl-C ends it")
    sys.stdout.flush()
    if not no_browser:
        open_browser(settings)
    serve(app, listening, peers if peers is not None and peers.can_tell else None)
    echo("ended")


def _check(settings: Settings) -> None:
    """Raises UsageError for an address that others can reach, without a token that cannot be guessed."""
    if settings.token is not None and not settings.token.strip():
        raise UsageError("the token is empty", "Give one that cannot be guessed, or leave it out.")
    if settings.token is not None and not settings.token.isprintable():
        raise UsageError("the token has characters that cannot be sent", "Use letters and digits.")
    if settings.host in LOOPBACK:
        return
    if settings.token is None:
        raise UsageError(
            f"others can reach {settings.host}, so a token is needed",
            f"Set {TOKEN_VARIABLE} or give --token with at least {SHORTEST_TOKEN} characters that cannot be guessed; "
            "or leave --host out.",
        )
    if len(settings.token.strip()) < SHORTEST_TOKEN:
        raise UsageError(
            f"others can reach {settings.host}, and its token has fewer than {SHORTEST_TOKEN} characters",
            "A short token can be guessed. Make one: openssl rand -hex 16",
        )


def _refuse_missing() -> None:
    """Raises UsageError where the packages of the extra are not installed."""
    from importlib import import_module

    from rejoinder.installing import install_hint

    for name in ("starlette", "uvicorn"):
        try:
            import_module(name)
        except ImportError:
            raise UsageError(f"the viewer needs {name}", install_hint("view")) from None


def _port_of(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


def open_browser(settings: Settings) -> None:
    """In a thread: a browser may take its time, and a text browser would take the terminal."""
    import threading
    import webbrowser

    if not os.environ.get("BROWSER") and sys.platform == "linux" and not _has_screen():
        return
    address = settings.address if settings.token is None else f"{settings.address}/?token={quote(settings.token, '')}"
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _has_screen() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
