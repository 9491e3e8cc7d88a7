"""The options that several commands share, each declared once, and the topology that they name.

Light to import: every command's `--help` passes here. Loads the user's module only when `declared` is called.
"""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from topology.cli.running import Recipe
    from topology.graph import Topology


class LogFormat(StrEnum):
    """How entries of the log look; see `topology.cli.logs`."""

    AUTO = "auto"
    CONSOLE = "console"
    JSON = "json"


class LogLevel(StrEnum):
    """From which level on entries are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


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
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", help="Run on N worker processes; without it all is in this one."),
]
LinksOption = Annotated[
    str | None,
    typer.Option(
        "--links",
        metavar="ipc|tcp://HOST[:PORT]",
        help="Where workers listen for one another: ipc unless given; tcp is encrypted with keys of this run. "
        "Each worker has a port of its own, counted from PORT.",
    ),
]
ForOption = Annotated[float | None, typer.Option("--for", metavar="SECONDS", help="Drain and end after this long.")]
StateDirOption = Annotated[
    Path | None, typer.Option("--state-dir", metavar="DIR", help="Kept between runs; .kedge/NAME unless given.")
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Forget what earlier runs noted in the state directory.")]
JsonOption = Annotated[bool, typer.Option("--json", help="End stdout with one JSON object: the run in figures.")]
LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="The log on stderr: 'auto' is console on a terminal, else JSON.")
]
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="Log entries from this level on.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show whole tracebacks, and log from level debug on.")]


def declared(target: str, set_: list[str], config: list[str]) -> tuple["Topology", "Recipe"]:
    """The topology, loaded and configured; and from its configuration what makes it once more, in a worker process."""
    from functools import partial

    from topology.cli import settings
    from topology.cli.loading import load, recipe, target_of

    given = settings.pairs(config, "--config")
    found, values = target_of(target), settings.pairs(set_, "--set")
    topology = load(found, values)
    topology.config = settings.configured(topology.config, given, os.environ)
    return topology, partial(recipe, found, values)
