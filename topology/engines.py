"""Engines: what runs a topology's bolts in place of Kedge's own workers; another dataflow system, say.

An engine makes another topology of the one that was declared: its spouts as they are, and whatever hands their messages
on. A package brings one by an entry point of the group `kedge.engines`, NAME = "module:attribute", an object of a class
that is an Engine; its module is imported where `--engine NAME` is given. Pure; must not know any engine.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, Final

from topology.codes.startup import ENGINE_LOAD_FAILED, UNKNOWN_ENGINE
from topology.errors import ConfigurationError, Mistake, did_you_mean
from topology.graph import Graph

GROUP: Final = "kedge.engines"  # the group of entry points


class Engine(ABC):
    """Another way to run a topology. `name` is what `--engine` calls it by."""

    name: str

    @abstractmethod
    def mistakes(self, topology: Graph) -> list[Mistake]:
        """All that this engine can't run of a topology that is valid, each with its reason and what to do. Runs and
        starts nothing."""

    @abstractmethod
    def derived(self, topology: Graph, again: Mapping[str, Any]) -> Graph:
        """What Kedge's workers run in its place. `again`: arguments by which `topology.loading.load.again` makes the
        declared topology once more, in another process. Called in each worker process, too."""


def engine_of(name: str, called: str = "--engine") -> Engine:
    """The engine of this name, from the entry points of installed packages. `called`: how the user named it. Raises
    ConfigurationError if there is none of that name, or if it can't be imported."""
    entries = {one.name: one for one in entry_points(group=GROUP)}
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        text = f"{called} {name!r:.80} is no engine{did_you_mean(name, entries)}; there is {known}"
        raise ConfigurationError(text, code=UNKNOWN_ENGINE)
    try:
        engine: Engine = entries[name].load()
    except Exception as error:
        text = f"the engine {name!r}, {entries[name].value}, can't be loaded: {type(error).__name__}: {error}"
        raise ConfigurationError(text, code=ENGINE_LOAD_FAILED) from error
    return engine


def derived(topology: Graph, name: str, again: Mapping[str, Any]) -> Graph:
    """The same in another process, which need not check it."""
    return engine_of(name).derived(topology, again)
