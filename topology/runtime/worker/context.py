"""The values that all workers of one run are made with. No behaviour."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from topology.components import Clock, Notes, no_folder


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """The surroundings of a worker, which it passes on to its components and its spouts.

    topology_id  Part of each message's identity: the same for all runs on one state directory.
    key          The bytes that ids of outside messages are hashed with.
    renew        Returns the next durable incarnation; may block.
    clock, notes, folder  What components get in their Task.
    """

    topology_id: str
    key: bytes
    renew: Callable[[], int]
    clock: Clock
    notes: Notes
    folder: Callable[[], Path] = no_folder
