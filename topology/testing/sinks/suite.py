"""The conformance suite of idempotent sinks, for Kedge's own and for yours: it tests each promise on a real store.

A `SinkSubject` says how the sink is made on one fresh store, and how a reader looks into the store. Each check takes
one:

    class MySubject(SinkSubject):
        def __init__(self, path: Path) -> None:
            self.path = path

        def make(self) -> Bolt:
            return MySink(self.path)

        def rows(self) -> list[tuple[int, int]]:
            return read_with_a_connection_of_its_own(self.path)

    @pytest.mark.parametrize("check", SINK_CHECKS)
    def test_my_sink(check: str, tmp_path: Path) -> None:
        if left_out := check_sink(check, MySubject(tmp_path / "store")):
            pytest.skip(left_out)

Must not know pytest, nor any store.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Literal

from topology.components import Bolt
from topology.testing.left_out import LeftOut
from topology.testing.sinks.checks import APPEND, BOTH, UPSERT
from topology.testing.sinks.driver import SinkItem

__all__ = ["SINK_CHECKS", "SinkItem", "SinkSubject", "check_sink"]

WITHIN_S: Final = 120.0  # seconds for one check

SINK_CHECKS: Final = tuple(check.__name__ for check in (*BOTH, *APPEND, *UPSERT))


class SinkSubject:
    """One sink over one fresh store. A subclass defines `make` and `rows`; further methods allow more checks.

    mode    'append', or 'upsert' by key=("number",) and revision="revision" of `SinkItem`.
    tasks   How many tasks of the sink may write the store at once.
    ordered True if rows can be read in the order in which they were stored; a database need not have one.
    """

    mode: Literal["append", "upsert"] = "append"
    tasks: int = 1
    ordered: bool = True

    def make(self) -> Bolt:
        """Return a sink on this store, not yet open. Called several times. If the sink writes batches, they must be of
        at most 100 tuples, and it must wait at most some milliseconds for them."""
        raise NotImplementedError

    def rows(self) -> Sequence[tuple[int, int]]:
        """Return (number, revision) of each stored `SinkItem`, in the order of storing if there is one. Read what is
        committed, with a connection or descriptor of its own; called also while sinks are open."""
        raise NotImplementedError

    def bad(self) -> Sequence[SinkItem]:
        """Return items that this store can't hold. No sink of Kedge can hold any of these."""
        return (
            SinkItem(2**63, 1, "beyond 64 bits", 0.0),
            SinkItem(1_001, 1, "a lone surrogate: \udc80", 0.0),
            SinkItem(1_002, 1, "no number", float("nan")),
        )

    def away(self) -> AbstractContextManager[object]:
        """While this is entered, the store does not answer, or accepts nothing. Without it, checks that need it are
        skipped."""
        raise LeftOut("the subject does not say how its store is away")

    def lost_answer(self) -> AbstractContextManager[object]:
        """While this is entered, the next commit happens, and its answer never arrives (C10). May be left out like
        `away`."""
        raise LeftOut("the subject does not say how an answer is lost")

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        """Return how another process makes this subject on the same store: "module:function", and arguments that JSON
        can carry. May be left out like `away`."""
        raise LeftOut("the subject can't be made by another process")


def check_sink(check: str, subject: SinkSubject) -> str:
    """Run one of SINK_CHECKS on a fresh subject. Return why it was skipped, or an empty text.

    Raises AssertionError whose text is the broken promise, also if a check takes more than two minutes, and what the
    subject raises. Blocks; do not call it from a running loop.
    """
    found = {function.__name__: function for function in (*BOTH, *APPEND, *UPSERT)}[check]
    if found in APPEND and subject.mode != "append":
        return "it is about append mode"
    if found in UPSERT and subject.mode != "upsert":
        return "it is about upsert mode"

    async def run() -> None:
        limit = asyncio.timeout(WITHIN_S)
        try:
            async with limit:
                await found(subject)
        except TimeoutError:
            if not limit.expired():
                raise
            raise AssertionError(f"not over after {WITHIN_S:g} s: a call of the sink's does not return") from None

    try:
        asyncio.run(run())
    except LeftOut as error:
        return str(error)
    return ""
