"""The conformance suite of sources, for Kedge's own and for yours: it tests each promise on a real server.

A `SourceSubject` says how the source is made on one fresh queue, stream or table, and how messages get there. Each
check takes one:

    class MySubject(SourceSubject):
        def __init__(self, queue: str) -> None:
            self.queue = queue

        def make(self) -> Spout:
            return MySource("mine://localhost", self.queue, value=SourceItem)

        def put(self, numbers: Sequence[int]) -> None:
            with mine.connect() as connection:
                for number in numbers:
                    connection.send(self.queue, self.payload(number))

    @pytest.mark.parametrize("check", SOURCE_CHECKS)
    def test_my_source(check: str) -> None:
        if left_out := check_source(check, MySubject(f"test-{uuid4()}")):
            pytest.skip(left_out)

Must not know pytest, nor any server.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec

from topology.components import Spout
from topology.testing.left_out import LeftOut
from topology.testing.sources.checks import CHECKS
from topology.testing.sources.driver import SourceItem

__all__ = ["SOURCE_CHECKS", "SourceItem", "SourceSubject", "check_source"]

WITHIN_S: Final = 120.0  # seconds for one check

SOURCE_CHECKS: Final = tuple(check.__name__ for check in CHECKS)


class SourceSubject:
    """One source over one fresh queue, stream, table or socket. A subclass defines `make` and `put`; further methods
    allow more checks.

    tasks    How many tasks may share the messages.
    again_s  Seconds after which the server gives messages again that a closed or killed source had.
    begins_where_it_left  False if the server keeps nothing: messages that come while no source is open are lost, and so
             are those that were under way.
    """

    tasks: int = 1
    again_s: float = 0.0
    begins_where_it_left: bool = True

    def make(self) -> Spout:
        """Return a source, not yet open. Called several times."""
        raise NotImplementedError

    def put(self, numbers: Sequence[int]) -> None:
        """Send a message for each number. Called in a thread; blocks until the server has them all."""
        raise NotImplementedError

    def payload(self, number: int) -> bytes:
        """Return the payload of a `SourceItem` as JSON, for `put`."""
        return msgspec.json.encode({"number": number, "text": f"item {number}"})

    def number(self, record: Any) -> int:
        """Return the number of a record that the source has given."""
        found: int = record.number
        return found

    def put_bad(self) -> bytes:
        """Send a message that does not fit the record class, and return its payload. Without it, checks that need it
        are skipped."""
        raise LeftOut("the subject does not say how a payload does not fit")

    def away(self) -> AbstractContextManager[object]:
        """While this is entered, the server does not answer, or all its connections are closed. May be left out like
        `put_bad`."""
        raise LeftOut("the subject does not say how its server is away")

    def missing(self) -> Spout:
        """Return a source whose server is not there. May be left out like `put_bad`."""
        raise LeftOut("the subject does not say how its server is missing")

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        """Return how another process makes this subject on the same queue: "module:function", and arguments that JSON
        can carry. May be left out like `put_bad`."""
        raise LeftOut("the subject can't be made by another process")


def check_source(check: str, subject: SourceSubject) -> str:
    """Run one of SOURCE_CHECKS on a fresh subject. Return why it was skipped, or an empty text.

    Raises AssertionError whose text is the broken promise, also if a check takes more than two minutes, and what the
    subject raises. Blocks; do not call it from a running loop.
    """
    found = {function.__name__: function for function in CHECKS}[check]

    async def run() -> None:
        limit = asyncio.timeout(WITHIN_S)
        try:
            async with limit:
                await found(subject)
        except TimeoutError:
            if not limit.expired():
                raise
            raise AssertionError(f"not over after {WITHIN_S:g} s: a call of the source's does not return") from None

    try:
        asyncio.run(run())
    except LeftOut as error:
        return str(error)
    return ""
