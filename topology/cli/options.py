"""The options that several commands share, each declared once, and `declared`, which loads the topology they name.

Light to import, because every command's `--help` imports this module. Only `declared` loads the user's module.
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
_WHAT: Final = "Topology"  # titles of the groups of options in a command's help
RUN_GROUP: Final = "Run"
_OUTPUT: Final = "Output"

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE-OR-MODULE[:NAME]",
        help="The topology: a Python file or module, and after a colon the name of a Topology or of a function that "
        "makes one. Default name: 'topology'.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a parameter of the function that makes the topology. Repeatable.",
        rich_help_panel=_WHAT,
    ),
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="NAME=VALUE",
        help="Set a field of the topology's Config, for example max_pending=500. KEDGE_MAX_PENDING does the same. "
        "Repeatable.",
        rich_help_panel=_WHAT,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", help="Run on N worker processes. Default: in this process.", rich_help_panel=RUN_GROUP
    ),
]
LinksOption = Annotated[
    str | None,
    typer.Option(
        "--links",
        metavar="WHERE",
        help="How workers connect to each other: ipc (default) or encrypted tcp://HOST[:PORT]. "
        "Worker N listens on PORT + N.",
        rich_help_panel=RUN_GROUP,
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Run the bolts on this engine instead of Kedge's workers: spark, in micro-batches, or the engine of "
        "another package.",
        rich_help_panel=RUN_GROUP,
    ),
]
ForOption = Annotated[
    Duration | None,
    typer.Option(
        "--for",
        metavar="TIME",
        parser=Duration,
        help="Drain and end after this time: 8s, 2m, 1h, 500ms, or a number of seconds.",
        rich_help_panel=RUN_GROUP,
    ),
]
StateDirOption = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        readable=False,  # the run says why it cannot be read
        help="Directory for what is kept between runs. Default: .kedge/NAME-OF-TOPOLOGY.",
        rich_help_panel=RUN_GROUP,
    ),
]
NoStateOption = Annotated[
    bool,
    typer.Option(
        "--no-state",
        help="Keep nothing on the disk: positions, state and dead letters are in memory, and lost when the run ends.",
        rich_help_panel=RUN_GROUP,
    ),
]
FreshOption = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="Delete positions and state of earlier runs, so that everything is read again. Sinks still drop records "
        "that they already stored, and dead letters stay.",
        rich_help_panel=RUN_GROUP,
    ),
]
RunIdOption = Annotated[
    str | None,
    typer.Option(
        "--run-id",
        metavar="new|NAME",
        help="Start over with new record identities, for this and later runs: everything is read, processed and "
        "stored again. If NAME was used before, sinks skip the records they already stored under it.",
        rich_help_panel=RUN_GROUP,
    ),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="CHECKPOINT",
        help="Begin from a checkpoint that kedge state checkpoint has kept: its name, or the path of its folder. What "
        "the state directory has is kept as a checkpoint too.",
        rich_help_panel=RUN_GROUP,
    ),
]
DuplicatesOption = Annotated[
    bool,
    typer.Option(
        "--accept-duplicates",
        help="Start although the topology changed while messages were in flight. Their outputs may be stored twice.",
        rich_help_panel=RUN_GROUP,
    ),
]
CheckTypesOption = Annotated[
    bool,
    typer.Option(
        "--check-types",
        help="Check the types of each record's fields. A wrong type fails at the line that makes the record. "
        "For trials and tests: it takes some microseconds per record.",
        rich_help_panel=RUN_GROUP,
    ),
]
LossOption = Annotated[
    bool,
    typer.Option(
        "--accept-loss",
        help="Start although a file of the state directory is missing, or older than it was. Its content is lost.",
        rich_help_panel=RUN_GROUP,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="End stdout with one JSON object: the figures of the run.", rich_help_panel=_OUTPUT),
]
LogFormatOption = Annotated[
    LogFormat,
    typer.Option(
        LOG_FORMAT,
        metavar="FORMAT",
        help="Format of the log on stderr: auto (console on a terminal, else one JSON object per line), console, or "
        "json. With json, progress and errors are JSON too.",
        rich_help_panel=_OUTPUT,
    ),
]
LogLevelOption = Annotated[
    LogLevel,
    typer.Option(
        "--log-level",
        metavar="LEVEL",
        help="Lowest level of the log: debug, info, warning or error.",
        rich_help_panel=_OUTPUT,
    ),
]
DebugOption = Annotated[
    bool,
    typer.Option("--debug", help="Log from level debug on, and show complete tracebacks.", rich_help_panel=_OUTPUT),
]


def json_asked_for(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return True if all output is to be JSON, including errors of the command line itself."""
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
    """Load and configure the topology. Return it, and a function that makes it again from its configuration, in a
    worker process. `absent`: for commands that run nothing; see `settings.arguments`."""
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
