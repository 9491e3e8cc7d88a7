"""The options that several commands share, each declared once, and the topology that they name.

Light to import: every command's `--help` passes here. Loads the user's module only when `declared` is called.
"""

import os
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from topology.cli.running import Recipe
    from topology.graph import Topology

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
