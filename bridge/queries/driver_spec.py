"""What the driver is told on its stdin: where it works, and the queries, with the users' functions as cloudpickle.

Those functions are code from the user who starts the run, from the process that has loaded it, by a pipe: never data
(S13). They are all that is unpickled, and only in the driver. Knows neither a session nor a topology.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class QuerySpec:
    """One query. Schemas are Arrow's, serialized, in base64; so is the pickled function."""

    name: str
    mode: str
    inputs: Mapping[str, str]  # input → its schema, in the order of the function's arguments
    output: str
    declares: str  # the name of the class of its results, for sentences
    function: str
    revision: str = ""  # the field of the output that has the number of its batch; none where empty

    def input_schema(self, name: str) -> pa.Schema:
        return schema_of(self.inputs[name])

    def output_schema(self) -> pa.Schema:
        return schema_of(self.output)


@dataclass(frozen=True)
class Spec:
    """All that one driver does."""

    topology: str
    folder: str  # of all queries
    master: str
    queries: tuple[QuerySpec, ...]
    settings: Mapping[str, str] = field(default_factory=dict)  # Spark's, over ours

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of_bytes(cls, given: bytes) -> "Spec":
        told = json.loads(given)
        return cls(**{**told, "queries": tuple(QuerySpec(**one) for one in told["queries"])})


def text_of(content: bytes) -> str:
    """Bytes in a spec."""
    return b64encode(content).decode()


def bytes_of(text: str) -> bytes:
    """Bytes out of a spec."""
    return b64decode(text)


def schema_text(schema: pa.Schema) -> str:
    return text_of(schema.serialize().to_pybytes())


def schema_of(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.BufferReader(bytes_of(text)))


def function_of(text: str) -> Any:
    """The user's function. Imports their module where it is importable, and so may raise what that does."""
    from pyspark import cloudpickle

    return cloudpickle.loads(bytes_of(text))
