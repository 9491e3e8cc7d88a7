"""`kedge run`: a topology until its sources end, or until it is told to stop."""

from pathlib import Path
from typing import Annotated, Final

import typer

from topology.cli import terminal
from topology.cli.options import ConfigOption, DebugOption, SetOption, TargetArgument, declared
from topology.errors import ConfigurationError
from topology.text import printable
from topology.version import version

WORKERS_MAX: Final = 64  # each has a link to each other one, which says something twice a second
LINKS: Final = "ipc"


def run(
    target: TargetArgument,
    set_: SetOption = None,
    for_s: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", help="Drain and end after this long.")
    ] = None,
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", metavar="DIR", help="Kept between runs; .kedge/NAME unless given.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget what earlier runs noted in the state directory.")
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", help="Run on N worker processes; without it all is in this one."),
    ] = None,
    links: Annotated[
        str | None,
        typer.Option(
            "--links",
            metavar="ipc|tcp://HOST[:PORT]",
            help="Where workers listen for one another: ipc unless given; tcp is encrypted with keys of this run. "
            "Each worker has a port of its own, counted from PORT.",
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="End stdout with one JSON object: the run in figures.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Run a topology until its sources end, or until Ctrl-C: then it drains; a second one ends it now."""
    terminal.say(f"kedge {version()}: {printable(target)}")
    if for_s is not None and not 0 < for_s < float("inf"):
        raise ConfigurationError(f"--for takes a number of seconds above 0, not {for_s:g}")
    if state_dir == Path():
        raise ConfigurationError("--state-dir takes a directory of its own, not the current one")
    _check_processes(workers, links)
    topology, recipe = declared(target, set_ or [], config or [])
    from topology.cli import running

    processes = running.Processes(workers, links or LINKS, recipe) if workers is not None else None
    options = running.Options(state_dir, fresh, for_s, as_json, debug, processes)
    raise typer.Exit(running.run(topology, options))


def _check_processes(workers: int | None, links: str | None) -> None:
    """Raises ConfigurationError for a number of workers, or links, that can't be."""
    if workers is not None and not 1 <= workers <= WORKERS_MAX:
        raise ConfigurationError(f"--workers takes a whole number from 1 to {WORKERS_MAX:,}, not {workers}")
    if links is None or (links == LINKS and workers is not None):
        return
    if workers is None:
        raise ConfigurationError("--links is for runs on several processes: give --workers N, too")
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(links)
        good = parts.scheme == "tcp" and parts.hostname and links == f"tcp://{parts.netloc}" and parts.port != 0
    except ValueError:  # a port that is none
        good = False
    if not good:
        raise ConfigurationError(f"--links takes ipc, tcp://HOST or tcp://HOST:PORT, not {links!r}")
