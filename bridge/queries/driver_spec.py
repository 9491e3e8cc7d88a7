"""The specification that the driver reads from stdin: its folder, its master and its queries, with the users' functions
as cloudpickle.

These functions are code of the user who starts the run. They come through a pipe from the process that loaded them, and
are never data (S13). Only they are unpickled, and only in the driver. Knows neither a session nor a topology.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class QuerySpec:
    """One query. Schemas are serialized Arrow schemas in base64; the pickled function is in base64 too."""

    name: str
    mode: str
    inputs: Mapping[str, str]  # input → its schema, in the order of the function's arguments
    output: str
    declares: str  # name of the class of the results, for messages
    function: str
    revision: str = ""  # field of the output that holds the batch's number; empty if none

    def input_schema(self, name: str) -> pa.Schema:
        return schema_of(self.inputs[name])

    def output_schema(self) -> pa.Schema:
        return schema_of(self.output)


@dataclass(frozen=True)
class Spec:
    """Everything that one driver runs."""

    topology: str
    folder: str  # folder of all queries
    master: str
    queries: tuple[QuerySpec, ...]
    settings: Mapping[str, str] = field(default_factory=dict)  # settings of Spark, which override ours

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def of_bytes(cls, given: bytes) -> "Spec":
        fields = json.loads(given)
        return cls(**{**fields, "queries": tuple(QuerySpec(**query) for query in fields["queries"])})


def text_of(content: bytes) -> str:
    """Return bytes as text for a spec."""
    return b64encode(content).decode()


def bytes_of(text: str) -> bytes:
    """Return the bytes of a text from a spec."""
    return b64decode(text)


def schema_text(schema: pa.Schema) -> str:
    return text_of(schema.serialize().to_pybytes())


def schema_of(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.BufferReader(bytes_of(text)))


def function_of(text: str) -> Any:
    """Return the user's function. Imports the user's module if it is importable, and so may raise what the import
    raises."""
    from pyspark import cloudpickle

    return cloudpickle.loads(bytes_of(text))
