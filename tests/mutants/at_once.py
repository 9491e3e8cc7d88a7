"""Mutants of acks at once: of many inputs that a sink was given together, or has kept. Pure."""

from typing import Final

from tests.mutants.mutant import Mutant

AT_ONCE: Final = "tests/runtime/tasks/test_acking_all.py::"
TAKING: Final = "tests/runtime/tasks/test_taking.py::"

MUTANTS: Final = (
    Mutant(
        rule="A4",
        breaks="an input that a sink was given among many stays open after its ack, and can be acked again",
        file="topology/runtime/hot/hot_path.py",
        old="found = given.pop(id(argument), None)",
        new="found = given.get(id(argument), None)",
        test=f"{TAKING}test_a3_a4_each_input_may_be_acked_failed_or_touched_alone_but_once",
    ),
    Mutant(
        rule="A1",
        breaks="an input of several trees that a sink was given among many is acked in the first of them alone",
        file="topology/runtime/hot/hot_path.py",
        old="            for root in tup.roots:\n",
        new="            for root in tup.roots[:1]:\n",
        test=f"{TAKING}test_a1_what_is_in_several_trees_is_acked_at_each_of_their_homes",
    ),
    Mutant(
        rule="A4",
        breaks="of several tuples that are acked at once, those that are finished are acked again",
        file="topology/runtime/tasks/collector.py",
        old="            del opened[id(tup)]\n            one.finished = True",
        new="            pass",
        test=f"{AT_ONCE}test_a4_an_input_that_is_named_twice_is_acked_once",
    ),
    Mutant(
        rule="A1",
        breaks="acks at once go to the first tree of each tuple alone",
        file="topology/runtime/tasks/collector.py",
        old="done += [tree for root, value in one.values.items() if",
        new="done += [tree for root, value in [*one.values.items()][:1] if",
        test=f"{AT_ONCE}test_a1_acks_at_once_of_what_is_in_several_trees_go_to_each_of_their_homes",
    ),
)
