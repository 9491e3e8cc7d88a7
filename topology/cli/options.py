"""The options that several commands share, each declared once, and the topology that they name.

Light to import: every command's `--help` passes here. Loads the user's module only when `declared` is called.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from topology.cli.command import given_as
from topology.cli.log_levels import LogFormat, LogLevel
from topology.loading.durations import Duration

if TYPE_CHECKING:
    from topology.cli.run_session import Recipe
    from topology.graph import Graph


LOG_FORMAT: Final = "--log-format"
_WHAT: Final = "What is run"  # groups of options in a command's help
RUN_GROUP: Final = "How it is run"
_OUTPUT: Final = "What is shown"

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE-OR-MODULE[:NAME]",
        help="Where the topology is: a Python file or module, and in it a Topology, or a function that makes one, "
        "called 'topology' unless named.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A parameter of the function that makes it; may be repeated.",
        rich_help_panel=_WHAT,
    ),
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="NAME=VALUE",
        help="A field of its Config, max_pending=500 say, as KEDGE_MAX_PENDING does; may be repeated.",
        rich_help_panel=_WHAT,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", help="On N processes; in this one unless given.", rich_help_panel=RUN_GROUP),
]
LinksOption = Annotated[
    str | None,
    typer.Option(
        "--links",
        metavar="WHERE",
        help="Where these listen for one another: ipc, which is the default, or tcp://HOST[:PORT], which is encrypted. "
        "Each has a port of its own, counted from PORT.",
        rich_help_panel=RUN_GROUP,
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="What runs the bolts in place of Kedge's workers: spark, in micro-batches; more in packages.",
        rich_help_panel=RUN_GROUP,
    ),
]
ForOption = Annotated[
    Duration | None,
    typer.Option(
        "--for",
        metavar="TIME",
        parser=Duration,
        help="Drain and end after this long: 8s, 2m, 1h, 500ms, or a number of seconds.",
        rich_help_panel=RUN_GROUP,
    ),
]
StateDirOption = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        help="What is kept between runs; .kedge/NAME-OF-TOPOLOGY unless given.",
        rich_help_panel=RUN_GROUP,
    ),
]
NoStateOption = Annotated[
    bool,
    typer.Option(
        "--no-state",
        help="Keep nothing on the disk: positions and state are in memory, and gone with the run, as dead letters are.",
        rich_help_panel=RUN_GROUP,
    ),
]
FreshOption = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="Forget positions and state of earlier runs, so that everything is read again; sinks still drop what "
        "they hold, and dead letters stay.",
        rich_help_panel=RUN_GROUP,
    ),
]
RunIdOption = Annotated[
    str | None,
    typer.Option(
        "--run-id",
        metavar="new|NAME",
        help="Other identities, for this and later runs: everything is read, processed and stored again; under a NAME "
        "that was used before, sinks still drop what they have of it.",
        rich_help_panel=RUN_GROUP,
    ),
]
DuplicatesOption = Annotated[
    bool,
    typer.Option(
        "--accept-duplicates",
        help="Go on though the topology has changed while something was in flight, which may be stored twice.",
        rich_help_panel=RUN_GROUP,
    ),
]
CheckTypesOption = Annotated[
    bool,
    typer.Option(
        "--check-types",
        help="Check the types of each record's fields. A wrong type fails at the line that makes the record. "
        "For tries and tests: it takes some microseconds a record.",
        rich_help_panel=RUN_GROUP,
    ),
]
LossOption = Annotated[
    bool,
    typer.Option(
        "--accept-loss",
        help="Go on though a file of the state directory is missing, or older than it was.",
        rich_help_panel=RUN_GROUP,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="End stdout with one JSON object: the run in figures.", rich_help_panel=_OUTPUT),
]
LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        LOG_FORMAT,
        metavar="FORMAT",
        help="The log on stderr: auto (console on a terminal, else a JSON object a line), console, or json: then "
        "progress and errors are JSON, too.",
        rich_help_panel=_OUTPUT,
    ),
]
LogLevelOption = Annotated[
    LogLevel,
    typer.Option(
        "--log-level",
        metavar="LEVEL",
        help="The log from this level on: debug, info, warning or error.",
        rich_help_panel=_OUTPUT,
    ),
]
DebugOption = Annotated[
    bool,
    typer.Option("--debug", help="Log from level debug on, and show whole tracebacks.", rich_help_panel=_OUTPUT),
]


def json_asked_for(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether all that is said is to be JSON, errors of the command line itself included."""
    found = environment.get("KEDGE_LOG_FORMAT", "")
    for word, after in zip(arguments, [*arguments, ""][1:], strict=True):
        if word == LOG_FORMAT:
            found = after
        elif word.startswith(f"{LOG_FORMAT}="):
            found = word.removeprefix(f"{LOG_FORMAT}=")
    return found == LogFormat.JSON


def declared(
    target: str, set_: list[str], config: list[str], *, check_types: bool = False, absent: list[str] | None = None
) -> tuple["Graph", "Recipe"]:
    """The topology, loaded and configured; and from its configuration what makes it once more, in a worker process.
    `absent`: for what runs nothing, as of `settings.arguments`."""
    if check_types:
        from topology.exact_types import check_when_made

        check_when_made()  # before the records' classes are made
        config = [*config, "check_types=true"]
    from functools import partial

    from topology.cli.redact import warn_of
    from topology.loading import settings
    from topology.loading.load import load, recipe, target_of

    given = settings.pairs(config, given_as("--config"))
    found, values = target_of(target), settings.pairs(set_, given_as("--set"))
    topology = load(found, values, warn_of if values.option == "--set" else len, absent)
    topology.config = settings.configured(topology.config, given, os.environ)
    return topology, partial(recipe, found, values)
