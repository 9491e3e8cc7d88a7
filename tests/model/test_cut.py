"""Checkpoints, by a model: with all rules kept nothing is lost or doubled; each broken rule is found out.

After each step what may never be is looked for; in the end everything heals, and all must be there once.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import pytest
from cut_happenings import FOCI, HAPPENINGS, USUAL
from cut_run import Run
from cut_values import LENGTH, Kind, Mode, Rule
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

WALKS: Final = 60_000  # that may be needed to find a broken rule out; most need few
STEPS_MAX: Final = 40  # of one walk
FINDS: Final = {  # a rule that few walks find out → the first walk that does, which is a second's to a minute's search
    Rule.FRONTIER_BEFORE_SNAPSHOTS: (Mode.CHECKPOINT, 3905),
    Rule.COLOURS: (Mode.CHECKPOINT, 1389),
    Rule.KEPT_UNTIL_DECIDED: (Mode.DISK, 335),
    Rule.DECIDED_BY_ALL: (Mode.CHECKPOINT, 5569),
    Rule.DECISION_IS_DURABLE: (Mode.DISK, 748),
    Rule.UNDO_OF_THE_DECIDED: (Mode.DISK, 2408),
    Rule.LETTER_WITH_FRONTIER: (Mode.DISK, 368),
    Rule.FULL_IS_NOT_COMMITTED: (Mode.DISK, 866),
    Rule.FORGOTTEN_BY_NUMBER: (Mode.CHECKPOINT, 224),
    Rule.SINK_FORGETS_WHAT_IT_GATHERED: (Mode.CHECKPOINT, 224),
    Rule.RENUMBERING_IS_LOGGED: (Mode.DISK, 160),
    Rule.DROPPED_ARE_NAMED: (Mode.DISK, 256),
    Rule.TIMER_UNTIL_DECIDED: (Mode.DISK, 1554),
}


def walk(seed: int, mode: Mode, broken: Rule | None = None) -> None:
    """One life of a run, drawn by this seed. Raises AssertionError, with what has happened as a note, if something was
    lost or doubled."""
    random = Random(seed)
    run, happened = Run(mode, broken, random.choice([*Kind])), list[str]()

    def pick(choices: Sequence[Any]) -> Any:
        happened.append(str(one := random.choice([choices[0], *choices])))
        return one

    some = random.choice([*FOCI, [*USUAL, *random.sample([*HAPPENINGS], random.randint(3, len(HAPPENINGS)))]])
    try:
        for name in random.choices(some, k=random.randint(4, STEPS_MAX)):
            happened.append(name)
            HAPPENINGS[name](run, pick)
            run.check()
        happened.append("heals")
        run.heal()
    except AssertionError as error:
        error.add_note(f"{mode.name}, {run.kind.name}, seed {seed}: {' '.join(happened)}")
        raise


class Life(RuleBasedStateMachine):
    """What happens is drawn by Hypothesis, which makes what it finds as short as it can."""

    mode, kind = Mode.DISK, Kind.PLAIN

    def __init__(self) -> None:
        super().__init__()
        self.run = Run(self.mode, kind=self.kind)

    @rule(data=st.data())
    def happens(self, data: st.DataObject) -> None:
        def pick(choices: Any) -> Any:
            return data.draw(st.sampled_from(choices))

        HAPPENINGS[pick(sorted(HAPPENINGS))](self.run, pick)

    @invariant()
    def nothing_is_doubled(self) -> None:
        self.run.check()

    def teardown(self) -> None:
        self.run.heal()


@pytest.mark.parametrize("kind", Kind, ids=lambda one: one.name.lower())
@pytest.mark.parametrize("mode", Mode, ids=lambda one: one.name.lower())
def test_with_all_rules_kept_nothing_is_lost_and_nothing_doubled(mode: Mode, kind: Kind) -> None:
    looked = settings(deadline=None, max_examples=40, stateful_step_count=40)
    run_state_machine_as_test(type(mode.name, (Life,), {"mode": mode, "kind": kind}), settings=looked)


@pytest.mark.parametrize("mode", Mode, ids=lambda one: one.name.lower())
def test_long_walks_with_all_rules_kept_lose_and_double_nothing(mode: Mode) -> None:
    for seed in range(1_000):
        walk(seed, mode)


@pytest.mark.slow
@pytest.mark.parametrize("broken", Rule, ids=lambda one: one.name.lower())
def test_a_broken_rule_is_found_out(broken: Rule) -> None:
    with pytest.raises(AssertionError) as caught:
        walk_all(broken)
    print(f"{broken.value}\n{caught.value}\n{caught.value.__notes__[0]}")


@pytest.mark.parametrize("mode", Mode, ids=lambda one: one.name.lower())
@pytest.mark.parametrize("dead", [[0], [1], [2], [0, 1, 2]])
def test_a_source_that_is_quiet_keeps_nothing_of_the_others(mode: Mode, dead: list[int]) -> None:
    """`b` gives nothing, ever; what tasks remember of `a` goes all the same, after deaths too."""
    run = Run(mode)
    for message in range(LENGTH):
        run.home("a").emit(message)
        run.flow()
        run.die(dead)
    while run.home("a").at_hand():
        run.home("a").emit_next()
    run.flow()
    run.checkpoint()
    assert [task.state.entries for task in run.tasks] == [{}, {}]
    assert run.sink.known == {}


def walk_all(broken: Rule) -> None:
    """The walk that is known to find this rule out; then, if the model has changed and it does not, one after the other
    until one does, whose mode and seed are printed."""
    if broken in FINDS:
        mode, seed = FINDS[broken]
        walk(seed, mode, broken)
    for seed in range(WALKS):
        for mode in Mode:
            walk(seed, mode, broken)
