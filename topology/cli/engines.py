"""Engines of packages: found by the name of `--engine`, asked what they can't run, and put in place of the workers.

Knows entry points and the interface of an engine; must not know any one engine.
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
    """Raise ConfigurationError with all parts of a valid topology that the engine can't run."""
    if found := engine_of(name, given_as(OPTION)).mistakes(topology):
        lines = "\n".join(f"  {mistake}" for mistake in found)
        raise ConfigurationError(
            f"topology {topology.name!r:.80} can't run on {name}:\n{lines}", code=UNSUPPORTED_BY_ENGINE
        )


def put_on(topology: "Graph", name: str, recipe: "Recipe") -> tuple["Graph", "Recipe"]:
    """Return the topology that Kedge runs in place of this one, and its recipe. Raises as `check` does, and
    DeclarationError."""
    require_valid(topology)
    check(topology, name)

    def of_the_engine(config: "Config") -> dict[str, Any]:
        return {**recipe(config), "engine": name}

    return engine_of(name, given_as(OPTION)).derived(topology, recipe(topology.config)), of_the_engine
