"""The command line: `kedge run`, `kedge check`, and how every error ends: one clear sentence and an exit status.

    0  no message ended dead, and nothing was aborted        2  usage, declaration or configuration
    1  otherwise                                             3  could not start for another reason

Imports are lazy: the first line is there before the runtime and the user's own modules are.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from topology.cli import terminal
from topology.errors import ConfigurationError
from topology.text import printable
from topology.version import version

if TYPE_CHECKING:
    from topology.cli.running import Recipe
    from topology.graph import Topology

INTERRUPTED: Final = 130  # what Typer makes of a KeyboardInterrupt
WORKERS_MAX: Final = 64  # each has a link to each other one, which says something twice a second
LINKS: Final = "ipc"

app = typer.Typer(
    name="kedge",
    help="Runs topologies: every tuple acked, every alert within milliseconds.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE-OR-FILE[:ATTRIBUTE]",
        help="A Python file or module, and in it a Topology or a function that makes one: 'topology' unless named.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the function that makes the topology."),
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="NAME=VALUE", help="A field of the topology's Config; KEDGE_NAME does the same."),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show whole tracebacks, and log more.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        terminal.put(f"kedge {version()}")
        raise typer.Exit


@app.callback()
def kedge(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Runs topologies: every tuple acked, every alert within milliseconds."""


@app.command()
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
    topology, recipe = _declared(target, set_ or [], config or [])
    from topology.cli import running

    processes = running.Processes(workers, links or LINKS, recipe) if workers is not None else None
    options = running.Options(state_dir, fresh, for_s, as_json, debug, processes)
    raise typer.Exit(running.run(topology, options))


@app.command()
def check(
    target: TargetArgument, set_: SetOption = None, config: ConfigOption = None, debug: DebugOption = False
) -> None:
    """Find every mistake of a topology's declaration, without running it; warn of what a replay would make wrong."""
    topology, _ = _declared(target, set_ or [], config or [])
    topology.validate()
    from topology.cli.summary import described
    from topology.validate import warnings

    found = warnings(topology)
    for warning in found:
        terminal.say(f"warning: {printable(str(warning))}")
    count = f", {len(found)} warning{'s' * (len(found) != 1)}" if found else ""
    terminal.put(f"{topology.name}: {described(topology)}, no mistakes{count}")


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


def _declared(target: str, set_: list[str], config: list[str]) -> tuple["Topology", "Recipe"]:
    """The topology, loaded and configured; and from its configuration what makes it once more, in a worker process."""
    from functools import partial

    from topology.cli import settings
    from topology.cli.loading import load, recipe, target_of

    given = settings.pairs(config, "--config")
    found, values = target_of(target), settings.pairs(set_, "--set")
    topology = load(found, values)
    topology.config = settings.configured(topology.config, given, os.environ)
    return topology, partial(recipe, found, values)


def main() -> None:
    """The command. Ends the process with its exit status."""
    sys.exit(status_of(sys.argv[1:]))


def status_of(arguments: list[str]) -> int:
    """Runs one command line and tells errors. Returns the exit status."""
    try:
        status = int(app(arguments or ["--help"], prog_name="kedge", standalone_mode=False) or 0)
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        return status
    except (Exception, KeyboardInterrupt) as error:
        from topology.cli.telling import told

        return told(error, debug="--debug" in arguments)
