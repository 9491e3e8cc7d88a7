"""Engines that packages bring: found by the name that `--engine` gives, asked what they can't run, and put to work.

Knows entry points and what an engine is; not what any of them is for.
"""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from topology.cli.command import given_as
from topology.codes.starting import K451, K452, K453
from topology.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from topology.cli.running import Recipe
    from topology.config import Config
    from topology.engines import Engine
    from topology.graph import Topology

GROUP: Final = "kedge.engines"
OPTION: Final = "--engine"


def engine_of(name: str) -> "Engine":
    """Raises ConfigurationError where none is called so, or where it can't be imported."""
    entries = {one.name: one for one in entry_points(group=GROUP)}
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        text = f"{given_as(OPTION)} {name!r:.80} is no engine{did_you_mean(name, entries)}; there is {known}"
        raise ConfigurationError(text, code=K451)
    try:
        engine: Engine = entries[name].load()
    except Exception as error:
        text = f"the engine {name!r}, {entries[name].value}, can't be loaded: {type(error).__name__}: {error}"
        raise ConfigurationError(text, code=K452) from error
    return engine


def check(topology: "Topology", name: str) -> None:
    """Raises ConfigurationError with all that the engine can't run of a valid topology."""
    if found := engine_of(name).mistakes(topology):
        lines = "\n".join(f"  {mistake}" for mistake in found)
        raise ConfigurationError(f"topology {topology.name!r:.80} can't run on {name}:\n{lines}", code=K453)


def put_on(topology: "Topology", name: str, recipe: "Recipe") -> tuple["Topology", "Recipe"]:
    """What Kedge runs in place of this topology, and what makes that once more. Raises as `check` does, and
    DeclarationError."""
    topology.validate()
    check(topology, name)

    def of_the_engine(config: "Config") -> dict[str, Any]:
        return {**recipe(config), "engine": name}

    return engine_of(name).derived(topology, recipe(topology.config)), of_the_engine


def derived(topology: "Topology", name: str, again: Mapping[str, Any]) -> "Topology":
    """The same in another process, which need not check it."""
    return engine_of(name).derived(topology, again)
