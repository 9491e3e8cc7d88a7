"""All mutants, and the rules of which each has to have one. Pure."""

from collections.abc import Collection, Iterable
from typing import Final

from tests.mutants.a_rules import MUTANTS as A_RULES
from tests.mutants.at_once import MUTANTS as AT_ONCE
from tests.mutants.b_rules import MUTANTS as B_RULES
from tests.mutants.c_d_rules import MUTANTS as C_D_RULES
from tests.mutants.checkpoint_rules import MUTANTS as CHECKPOINT_RULES
from tests.mutants.d_e_rules import MUTANTS as D_E_RULES
from tests.mutants.disks import MUTANTS as DISKS
from tests.mutants.links import MUTANTS as LINKS
from tests.mutants.mutant import Mutant
from tests.mutants.processes import MUTANTS as PROCESSES
from tests.mutants.sources import MUTANTS as SOURCES
from tests.mutants.spark import MUTANTS as SPARK
from tests.mutants.state_rules import MUTANTS as STATE_RULES

MUTANTS: Final = (
    *A_RULES,
    *AT_ONCE,
    *B_RULES,
    *C_D_RULES,
    *CHECKPOINT_RULES,
    *D_E_RULES,
    *DISKS,
    *STATE_RULES,
    *LINKS,
    *PROCESSES,
    *SOURCES,
    *SPARK,
)

# The rules that hold so far.
RULES: Final = (
    *(f"A{n}" for n in (*range(1, 16), 17, 18, 19, 20, 21)),
    *(f"B{n}" for n in (1, 2, 3, 4, 6, 7, 8, 10, 12, 13, 14, 15, 19)),
    *("C1", "C2", "C9"),
    *(f"D{n}" for n in (*range(1, 12), 14, 15, 17, 18)),
    *("E1", "E4", "E7"),
    *(f"P{n}" for n in range(1, 17)),
    *("F18", "F20", "F22", "F61", "F64", *(f"F{n}" for n in (68, 70, 71, 72, 73, 75))),
)


def of_rules(rules: Collection[str], mutants: Iterable[Mutant] = MUTANTS) -> list[Mutant]:
    """The mutants of these rules, in their order; all where none is named. Raises KeyError for an unknown one."""
    known = {one.rule for one in MUTANTS}
    for rule in rules:
        if rule not in known:
            raise KeyError(rule)
    return [one for one in mutants if not rules or one.rule in rules]
