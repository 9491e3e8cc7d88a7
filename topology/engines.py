"""Engines: what runs a topology's bolts in place of Kedge's own workers; another dataflow system, say.

An engine makes another topology of the one that was declared: its spouts as they are, and whatever hands their messages
on. A package brings one by an entry point of the group `kedge.engines`, NAME = "module:attribute", an object of a class
that is an Engine; its module is imported where `--engine NAME` is given. Pure; must not know any engine.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from topology.errors import Mistake
from topology.graph import Topology


class Engine(ABC):
    """Another way to run a topology. `name` is what `--engine` calls it by."""

    name: str

    @abstractmethod
    def mistakes(self, topology: Topology) -> list[Mistake]:
        """All that this engine can't run of a topology that is valid, each with its reason and what to do. Runs and
        starts nothing."""

    @abstractmethod
    def derived(self, topology: Topology, again: Mapping[str, Any]) -> Topology:
        """What Kedge's workers run in its place. `again`: arguments by which `topology.cli.loading.again` makes the
        declared topology once more, in another process. Called in each worker process, too."""
