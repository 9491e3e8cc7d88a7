"""The conformance suite of idempotent sinks, for Kedge's own and for yours: what each promises, tried on a real store.

A `SinkSubject` says how the sink is made on one fresh store, and how a reader looks into that. Each check takes one:

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
from topology.testing.sinks.checks import APPEND, BOTH, UPSERT
from topology.testing.sinks.driver import LeftOut, SinkItem

__all__ = ["SINK_CHECKS", "SinkItem", "SinkSubject", "check_sink"]

WITHIN_S: Final = 120.0  # for one check

SINK_CHECKS: Final = tuple(check.__name__ for check in (*BOTH, *APPEND, *UPSERT))


class SinkSubject:
    """One sink over one fresh store. A subclass defines `make` and `rows`; what else it defines lets more be checked.

    mode    'append', or 'upsert' by key=("number",) and revision="revision" of `SinkItem`.
    tasks   How many tasks of the sink may write the store at once.
    ordered Whether rows can be read in the order in which they were given; a database need not have one.
    """

    mode: Literal["append", "upsert"] = "append"
    tasks: int = 1
    ordered: bool = True

    def make(self) -> Bolt:
        """A sink on this store, not yet open. It has to write batches of at most 100 tuples, where it writes batches,
        and to wait at most some milliseconds for them. Called several times."""
        raise NotImplementedError

    def rows(self) -> Sequence[tuple[int, int]]:
        """(number, revision) of each `SinkItem` that is stored, in the order of storing where there is one. Reads what
        is committed, by a connection or descriptor of its own; called while sinks are open, too."""
        raise NotImplementedError

    def bad(self) -> Sequence[SinkItem]:
        """Items that this store can't hold; of these no sink here can hold any."""
        return (
            SinkItem(2**63, 1, "beyond 64 bits", 0.0),
            SinkItem(1_001, 1, "a lone surrogate: \udc80", 0.0),
            SinkItem(1_002, 1, "no number", float("nan")),
        )

    def away(self) -> AbstractContextManager[object]:
        """The store does not answer, or takes nothing, while this is entered. Left out where it is not defined."""
        raise LeftOut("the subject does not say how its store is away")

    def lost_answer(self) -> AbstractContextManager[object]:
        """While this is entered, the next commit happens, and its answer never comes (C10). Left out as above."""
        raise LeftOut("the subject does not say how an answer is lost")

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        """How another process makes this subject on the same store: "module:function", and arguments that JSON can
        carry. Left out as above."""
        raise LeftOut("the subject can't be made by another process")


def check_sink(check: str, subject: SinkSubject) -> str:
    """Runs one of SINK_CHECKS on a fresh subject. Returns why it was left out, or nothing.

    Raises AssertionError, whose text is the promise that is broken, that it comes to an end within two minutes
    included; and whatever the subject raises. Blocks; not to be called from a running loop.
    """
    found = {one.__name__: one for one in (*BOTH, *APPEND, *UPSERT)}[check]
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
