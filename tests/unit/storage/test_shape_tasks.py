"""What a topology's shape says of a spout's tasks, and of whose their message ids are. Rule B14."""

import json

import pytest

from topology import Bolt, Message, Record, Spout, Topology
from topology.errors import StartError
from topology.plan import Plan, plan
from topology.storage.directory.shape import agreed, changes, shape_of, text_of


class Line(Record):
    text: str


class Lines(Spout):
    async def poll(self, limit: int) -> list[Message[Line]]:
        return []


class Sink(Bolt):
    def process(self, line: Line) -> None:
        return None


class SharedLines(Lines):
    shared_ids = True


def of_tasks(spout: Lines, tasks: int) -> Plan:
    topology = Topology("shapes")
    topology.bolt("store", Sink(), topology.spout("lines", spout, tasks=tasks).shuffle())
    return plan(topology, 1)


def test_a_run_under_the_rule_that_all_tasks_share_ids_is_gone_on_with_only_once_it_has_drained_B14() -> None:
    kept = json.loads(text_of(shape_of(of_tasks(Lines(), 2))))
    del kept["components"]["lines"]["ids"]  # as releases before that rule have written it
    text = "the tasks of 'lines' had shared one set of message ids, and each has its own now (shared_ids)"
    with pytest.raises(StartError) as refused:
        agreed(json.dumps(kept), False, shape_of(of_tasks(Lines(), 2)))
    assert text in str(refused.value)
    (told,) = agreed(json.dumps(kept), True, shape_of(of_tasks(Lines(), 2)))
    assert text in told
    assert agreed(json.dumps(kept), False, shape_of(of_tasks(SharedLines(), 2))) == []


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 3)])
def test_another_number_of_tasks_is_harmless_only_where_they_share_ids_B14(before: int, after: int) -> None:
    for spout, harmless in ((SharedLines(), True), (Lines(), False)):
        (change,) = changes(shape_of(of_tasks(spout, before)), shape_of(of_tasks(spout, after)))
        assert change.text == f"'lines' has {after} task{'s' * (after != 1)} in place of {before}"
        assert change.harmless is harmless
