"""Engines: other systems that run a topology's bolts in place of Kedge's own workers, for example another dataflow
system.

An engine derives another topology from the declared one: the same spouts, and bolts that hand their messages on to the
engine. A package brings an engine by an entry point of the group `kedge.engines`, NAME = "module:attribute". The
attribute is an object of an Engine class; its module is imported if `--engine NAME` is given. Pure; must not know any
engine.
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
    """Another way to run a topology. `name` is its name for `--engine`."""

    name: str

    @abstractmethod
    def mistakes(self, topology: Graph) -> list[Mistake]:
        """Return everything in a valid topology that this engine cannot run, each with its reason and a fix. Runs and
        starts nothing."""

    @abstractmethod
    def derived(self, topology: Graph, again: Mapping[str, Any]) -> Graph:
        """Return the topology that Kedge's workers run in its place. Called in each worker process, too.

        `again`: arguments by which `topology.loading.load.again` makes the declared topology once more, in another
        process.
        """


def engine_of(name: str, called: str = "--engine") -> Engine:
    """Return the engine of this name, from the entry points of installed packages. `called`: the name that the user
    gave. Raises ConfigurationError if there is none of that name, or if it cannot be imported."""
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
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
    """Return the derived topology in another process, which need not check it."""
    return engine_of(name).derived(topology, again)
