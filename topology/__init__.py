"""Topologies: declare a graph of spouts and bolts, run it, and know that every tuple was processed."""

from topology.components import Bolt, Collector, Message, Notes, Spout, State, Task, Tuple
from topology.config import Config
from topology.errors import (
    ConfigurationError,
    DeclarationError,
    EmitError,
    KedgeError,
    RecordError,
    Reject,
    StartError,
    TupleStateError,
)
from topology.functions import FunctionBolt, bolt
from topology.graph import Input, Stream, Topology
from topology.groupings import Grouping
from topology.records import Record

__all__ = [
    "Bolt",
    "Collector",
    "Config",
    "ConfigurationError",
    "DeclarationError",
    "EmitError",
    "FunctionBolt",
    "Grouping",
    "Input",
    "KedgeError",
    "Message",
    "Notes",
    "Record",
    "RecordError",
    "Reject",
    "Spout",
    "StartError",
    "State",
    "Stream",
    "Task",
    "Topology",
    "Tuple",
    "TupleStateError",
    "bolt",
]
