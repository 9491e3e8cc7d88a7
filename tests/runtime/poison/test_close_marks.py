"""Marks are kept close behind a spout for a while after a death of its worker (E7)."""

import asyncio
from types import SimpleNamespace

from topology.runtime.poison.frequent_marks import AHEAD_MAX, HURRIED_S, HURRY_S, CloseMarks
from topology.runtime.poison.records import TrialNotes
from topology.storage.values import Changes, Loaded
from topology.testing import run_virtual


class Keeping:
    """A keeper that counts how often it is asked to hurry."""

    why_full = ""

    def __init__(self) -> None:
        self.wanted = 0

    def add(self, part: object) -> None: ...

    def want(self) -> None:
        self.wanted += 1


def made() -> tuple[CloseMarks, Keeping, SimpleNamespace]:
    group_commit, reader = Keeping(), SimpleNamespace(counters=SimpleNamespace(emitted=0), wake=lambda: None)
    notes = TrialNotes(group_commit)  # type: ignore[arg-type]
    return CloseMarks([reader], group_commit, notes, window=1_000), group_commit, reader  # type: ignore[arg-type, list-item]


def test_commits_are_hurried_for_a_while_and_not_after_the_worker_has_closed_E7() -> None:
    async def main() -> None:
        marks, group_commit, _ = made()
        marks.begin(Loaded(deaths=1))
        await asyncio.sleep(HURRY_S / 2)
        assert group_commit.wanted > HURRY_S / 2 / HURRIED_S / 2
        marks.close()
        wanted = group_commit.wanted
        await asyncio.sleep(HURRY_S)
        assert group_commit.wanted == wanted

    run_virtual(main())


def test_a_spout_is_held_where_it_is_too_far_ahead_of_what_is_kept_until_that_is_kept_E7() -> None:
    async def main() -> None:
        marks, _, reader = made()
        marks.begin(Loaded(deaths=1))
        reader.counters.emitted = AHEAD_MAX - 1
        assert marks.holds(reader) == ""
        reader.counters.emitted += 1
        assert "its worker has died a moment ago" in marks.holds(reader)
        marks.gather(Changes())
        marks.not_kept()
        assert marks.holds(reader)
        marks.gather(Changes())
        marks.kept()
        assert marks.holds(reader) == ""
        reader.counters.emitted += AHEAD_MAX
        await asyncio.sleep(HURRY_S + HURRIED_S)
        assert marks.holds(reader) == ""

    run_virtual(main())
