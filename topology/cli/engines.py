"""Engines that packages bring: found by the name that `--engine` gives, asked what they can't run, and put to work.

Knows entry points and what an engine is; not what any of them is for.
"""

from typing import TYPE_CHECKING, Any, Final

from topology.checks.declaration import require_valid
from topology.cli.command import given_as
from topology.codes.startup import UNSUPPORTED_BY_ENGINE
from topology.engines import engine_of
from topology.errors import ConfigurationError

if TYPE_CHECKING:
    from topology.cli.run_session import Recipe
    from topology.config import Config
    from topology.graph import Graph

OPTION: Final = "--engine"


def check(topology: "Graph", name: str) -> None:
    """Raises ConfigurationError with all that the engine can't run of a valid topology."""
    if found := engine_of(name, given_as(OPTION)).mistakes(topology):
        lines = "\n".join(f"  {mistake}" for mistake in found)
        raise ConfigurationError(
            f"topology {topology.name!r:.80} can't run on {name}:\n{lines}", code=UNSUPPORTED_BY_ENGINE
        )


def put_on(topology: "Graph", name: str, recipe: "Recipe") -> tuple["Graph", "Recipe"]:
    """What Kedge runs in place of this topology, and what makes that once more. Raises as `check` does, and
    DeclarationError."""
    require_valid(topology)
    check(topology, name)

    def of_the_engine(config: "Config") -> dict[str, Any]:
        return {**recipe(config), "engine": name}

    return engine_of(name, given_as(OPTION)).derived(topology, recipe(topology.config)), of_the_engine
