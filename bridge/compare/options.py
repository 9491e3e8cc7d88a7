"""The options of `kedge compare` that no other command has. Declares only; imported with the list of all commands."""

from pathlib import Path
from typing import Annotated, Final

import typer

from bridge.queries.options import MASTER, SETTING
from topology.loading.durations import Duration

_HOW: Final = "How it is measured"  # groups of options in the help
_SHOWN: Final = "What is shown"

ModesOption = Annotated[
    str | None,
    typer.Option(
        "--modes",
        metavar="MODE,…",
        help="record (kedge run --workers 2), record:N (--workers N), embedded, spark:default, spark:100ms and so on "
        "(--engine spark with that trigger), spark:continuous, spark:real-time; all that can run here unless given, "
        "of record the one with 2.",
        rich_help_panel=_HOW,
    ),
]
RateOption = Annotated[
    str,
    typer.Option(
        "--rate",
        metavar="N|max",
        help="Messages offered per second, whether or not a mode keeps up; max: all at once.",
        rich_help_panel=_HOW,
    ),
]
P99Option = Annotated[
    Duration | None,
    typer.Option(
        "--p99",
        metavar="TIME",
        parser=Duration,
        help="Find the highest rate, starting at --rate, at which 99 % of a mode's results arrive within this time: "
        "10ms, 1s.",
        rich_help_panel=_HOW,
    ),
]
ForOption = Annotated[
    Duration,
    typer.Option(
        "--for",
        metavar="TIME",
        parser=Duration,
        help="Measured time of each round: 20s, 2m, or a number of seconds.",
        rich_help_panel=_HOW,
    ),
]
WarmUpOption = Annotated[
    Duration,
    typer.Option(
        "--warm-up",
        metavar="TIME",
        parser=Duration,
        help="Time before it, in which messages are offered but not measured.",
        rich_help_panel=_HOW,
    ),
]
RoundsOption = Annotated[
    int, typer.Option("--rounds", metavar="N", help="How often each mode has its turn.", rich_help_panel=_HOW)
]
KillOption = Annotated[
    bool,
    typer.Option(
        "--kill", help="Kill a process of each mode in the middle, and measure the recovery.", rich_help_panel=_HOW
    ),
]
SparkOption = Annotated[
    str | None, typer.Option(MASTER, metavar="MASTER", help="Where Spark runs, as of kedge run.", rich_help_panel=_HOW)
]
SparkConfOption = Annotated[
    list[str] | None,
    typer.Option(SETTING, metavar="KEY=VALUE", help="A setting of Spark's; may be repeated.", rich_help_panel=_HOW),
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE.html", help="Write a page with plots.", rich_help_panel=_SHOWN)
]
PngOption = Annotated[
    Path | None,
    typer.Option("--png", metavar="FILE.png", help="Write a picture for a README.", rich_help_panel=_SHOWN),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="One JSON object on stdout, histograms included; the table goes to stderr.",
        rich_help_panel=_SHOWN,
    ),
]
