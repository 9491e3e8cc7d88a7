"""Topologies: declare a graph of spouts and bolts, run it, and know that every tuple was processed.

A `Topology` is declared in a module, checked by `checks`, planned by `plan`, and run by `runtime`, which keeps what
must survive in `storage`. Must not know any concrete spout or bolt, nor Spark.

Imports nothing of: spouts, bolts, bridge, kedge, pyspark
Only cli imports: topology.cli
"""

from topology.companions import Companion, Launch
from topology.components import Bolt, Collector, Message, Notes, Positions, Spout, State, Task
from topology.config import Config
from topology.core.tuples import Tuple
from topology.dead_letters import DeadLetter, Malformed
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
from topology.graph import Input, Stream
from topology.groupings import Grouping
from topology.records import Record
from topology.secrets import Secret
from topology.topology import Topology

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
    "Malformed",
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
