"""The form of a server of the benchmark of connectors, and the record that goes through it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from topology.records import Record


class Reading(Record):
    """Five fields, as a typical message has: about 100 bytes of JSON."""

    id: str
    sensor: str
    at: float
    celsius: float
    ok: bool


def reading(number: int) -> Reading:
    return Reading(f"reading-{number:08}", f"sensor-{number % 1000}", 1_700_000_000.0 + number, 20.5, True)


class PlainReading(msgspec.Struct):
    """The same for plain code, which has no records."""

    id: str
    sensor: str
    at: float
    celsius: float
    ok: bool


def plain_reading(number: int) -> PlainReading:
    return PlainReading(*msgspec.structs.astuple(reading(number)))


def bodies(count: int) -> list[bytes]:
    """Return `count` readings as JSON objects."""
    return [msgspec.json.encode(plain_reading(number)) for number in range(count)]


DECODER = msgspec.json.Decoder(PlainReading)


class BenchedServer(Protocol):
    """A server with a place of its own for one measurement."""

    def there(self) -> AbstractAsyncContextManager[None]:
        """Make the place, and remove it at the end."""
        ...


class BenchedSource(BenchedServer, Protocol):
    """A server that is read."""

    async def fill(self, bodies: Sequence[bytes]) -> None:
        """Put these messages there; or begin to post them, if the source is the server."""

    def read(self, count: int) -> AsyncIterator[int]:
        """Read and decode `count` messages by plain code, and confirm them; yield how many came at once."""
        ...

    def source(self) -> Any:
        """Return a spout that reads the place."""


class BenchedSink(BenchedServer, Protocol):
    """A server that is written."""

    async def receive(self) -> None:
        """Begin to receive what is sent, if the server alone does not."""

    async def write(self, bodies: Sequence[bytes]) -> None:
        """Write messages by plain code, each confirmed."""

    def sink(self) -> Any:
        """Return a sink that writes there."""
