"""The order of durability, by a model: with the right one nothing is lost or doubled; each wrong one is found out.

After each step what may never be is looked for; in the end everything heals, and all must be there once. The right
order was changed until this held: what was found so stands in `Wrong`.
"""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from net import KINDS
from orders import Wrong
from walks import CHAIN, made, walk

WALKS = 40_000  # that may be needed to find a wrong order out; most need few


class Life(RuleBasedStateMachine):
    """What happens is drawn by Hypothesis, which makes what it finds as short as it can."""

    kind = CHAIN

    def __init__(self) -> None:
        super().__init__()
        self.world, self.table = made(self.kind)

    @rule(data=st.data())
    def happens(self, data: st.DataObject) -> None:
        def pick(choices: Any) -> Any:
            return data.draw(st.sampled_from(choices))

        self.table[pick(sorted(self.table))](self.world, pick)

    @invariant()
    def nothing_is_doubled(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        self.world.heal()


@pytest.mark.parametrize("kind", [CHAIN, *KINDS])
def test_in_the_right_order_nothing_is_lost_and_nothing_doubled(kind: str) -> None:
    looked = settings(deadline=None, max_examples=200 if kind == CHAIN else 50, stateful_step_count=40)
    run_state_machine_as_test(type(kind, (Life,), {"kind": kind}), settings=looked)


@pytest.mark.parametrize("kind", [CHAIN, *KINDS])
def test_long_walks_in_the_right_order_lose_and_double_nothing(kind: str) -> None:
    for seed in range(3_000 if kind == CHAIN else 1_000):
        walk(seed, kind=kind)


@pytest.mark.parametrize("wrong", Wrong, ids=lambda one: one.name.lower())
def test_a_wrong_order_is_found_out(wrong: Wrong) -> None:
    with pytest.raises(AssertionError) as caught:
        walk_all(wrong)
    print(f"{wrong.value}\n{caught.value}\n{caught.value.__notes__[0]}")


def walk_all(wrong: Wrong) -> None:
    for seed in range(WALKS):
        walk(seed, wrong)
