"""Topologies: declare a graph of spouts and bolts, run it, and know that every tuple was processed."""

from topology.companions import Companion, Launch
from topology.components import Bolt, Collector, Message, Notes, Positions, Spout, State, Task, Tuple
from topology.config import Config
from topology.deadletters import DeadLetter
from topology.errors import (
    ConfigurationError,
    DeclarationError,
    EmitError,
    KedgeError,
    NotYet,
    RecordError,
    Reject,
    StartError,
    TupleStateError,
)
from topology.functions import FunctionBolt, bolt
from topology.graph import Input, Stream, Topology
from topology.groupings import Grouping
from topology.records import Record
from topology.secret import Secret

__all__ = [
    "Bolt",
    "Collector",
    "Companion",
    "Config",
    "ConfigurationError",
    "DeadLetter",
    "DeclarationError",
    "EmitError",
    "FunctionBolt",
    "Grouping",
    "Input",
    "KedgeError",
    "Launch",
    "Message",
    "NotYet",
    "Notes",
    "Positions",
    "Record",
    "RecordError",
    "Reject",
    "Secret",
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
