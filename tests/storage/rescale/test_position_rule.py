"""Where a task resumes (E3, C2): safe first, against a brute-force account of what was done."""

from typing import Any

import pytest
from durable_kit import begun, mark
from hypothesis import given
from hypothesis import strategies as st

from topology.storage.rescale.positions import positions
from topology.storage.values import Begun, Mark, Span


def resumed(marks: list[Mark], has_begun: list[Begun], task: int, tasks: int) -> dict[str, Any]:
    return {partition: one.position for partition, one in positions(marks, has_begun, "lines", task, tasks).items()}


def test_a_task_resumes_at_its_own_marks_with_what_is_done_above_them() -> None:
    marks = [mark(5, done=((7, 9),)), mark(1, partition="q"), mark(8, 1)]
    found = positions(marks, [begun(0, 2), begun(1, 2)], "lines", 0, 2)
    assert found == {"p": marks[0], "q": marks[1]}
    assert positions(marks, [begun(0, 2), begun(1, 2)], "other", 0, 2) == {}


def test_a_task_that_never_began_resumes_nowhere_since_it_may_share_a_partition() -> None:
    assert resumed([mark(5, 0)], [begun(0, 2)], 1, 2) == {}


def test_a_task_that_began_and_has_no_mark_had_emitted_nothing_and_resumes_nowhere() -> None:
    """`Items` in two tasks: the first may be at its end before the second has emitted anything."""
    assert resumed([mark(5, 0)], [begun(0, 2), begun(1, 2)], 1, 2) == {}


def test_marks_without_a_word_that_the_task_has_begun_say_nothing() -> None:
    assert resumed([mark(5)], [], 0, 1) == {}


def test_more_tasks_after_one_resume_where_it_was_with_what_it_had_done() -> None:
    marks = [mark(5, done=((7, 9),))]
    for task in range(3):
        found = positions(marks, [begun(0, 1)], "lines", task, 3)
        assert (found["p"].position, found["p"].done) == (5, (Span(7, 9),))


def test_another_number_of_tasks_resumes_at_the_lowest_and_no_span_of_one_task_counts() -> None:
    marks = [mark(5, 0, done=((7, 9),)), mark(3, 1, done=((4, 90),))]
    found = positions(marks, [begun(0, 2), begun(1, 2)], "lines", 2, 3)
    assert (found["p"].position, found["p"].done) == (3, ())


@pytest.mark.parametrize(
    ("marks", "has_begun"),
    [
        ([mark(5, 0)], [begun(0, 2), begun(1, 2)]),  # the second may have read it too
        ([mark(5, 0), mark(6, 1)], [begun(0, 2)]),
        ([mark(5, 0), mark(6, 1)], [begun(0, 2), begun(1, 3)]),
        ([mark(5, 0), mark(6, 1, epoch="f")], [begun(0, 2), begun(1, 2)]),
        ([mark(5, 0), mark("x", 1)], [begun(0, 2), begun(1, 2)]),
        ([mark("w", 0), mark("x", 1)], [begun(0, 2), begun(1, 2)]),
    ],
)
def test_where_not_all_former_tasks_say_the_same_of_a_partition_it_is_read_again(
    marks: list[Mark], has_begun: list[Begun]
) -> None:
    assert resumed(marks, has_begun, 0, 1) == {}


def test_names_resume_where_all_former_tasks_agree() -> None:
    marks = [mark("x", 0, done=(("y", "y"),)), mark("x", 1)]
    found = positions(marks, [begun(0, 2), begun(1, 2)], "lines", 0, 1)
    assert (found["p"].position, found["p"].done) == ("x", ())


def test_the_epoch_that_a_task_came_to_last_is_meant_C2() -> None:
    marks = [mark(900, epoch="old"), mark(5, epoch="new")]
    found = positions(marks, [begun()], "lines", 0, 1)
    assert (found["p"].epoch, found["p"].position) == ("new", 5)


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, int, list[Mark], list[Begun], dict[str, list[int]]]:
    """Former tasks, new tasks, what was kept, and per partition what is not done. A partition is one task's, or shared:
    each reads every n-th id. A task's mark is what it had reached at some commit; the last of them may be missing."""
    before, now = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    marks, undone = [], {}
    has_begun = [Begun("lines", task, before) for task in range(before) if draw(st.booleans())]
    for partition in ("p", "q"):
        owner = draw(st.one_of(st.none(), st.integers(0, before - 1)))
        todo = []
        for task in range(before):
            ids = [id for id in range(12) if (id % before == task if owner is None else owner == task)]
            emitted = draw(st.integers(0, len(ids))) if Begun("lines", task, before) in has_begun else 0
            done = {id for id in ids[:emitted] if draw(st.booleans())}
            todo += [id for id in ids if id not in done]
            if emitted and draw(st.integers(0, 9)):
                first = next((at for at in range(emitted) if ids[at] not in done), emitted - 1)
                spans = tuple(Span(id, id) for id in ids[first:emitted] if id in done)
                marks.append(Mark("lines", task, partition, "e", ids[first], spans, ids[emitted - 1]))
        undone[partition] = todo
    return before, now, marks, has_begun, undone


@given(histories())
def test_no_message_that_is_not_done_is_passed_over_E3(
    history: tuple[int, int, list[Mark], list[Begun], dict[str, list[int]]],
) -> None:
    before, now, marks, has_begun, undone = history
    for partition, todo in undone.items():
        for id in todo:
            readers = [id % before] if before == now else range(now)  # whichever of the new tasks reads it
            for task in readers:
                found = positions(marks, has_begun, "lines", task, now).get(partition)
                if found is None:
                    continue
                assert isinstance(found.position, int)
                assert found.position <= id or _not_its(marks, partition, task, id), (id, found)
                assert not any(first <= id <= last for first, last in found.done)  # type: ignore[operator]


def _not_its(marks: list[Mark], partition: str, task: int, id: int) -> bool:
    """Whether the partition is another task's, so that this one does not read the id."""
    return not any(one.partition == partition and one.task == task for one in marks)
