"""The power fails at each operation of a log, and at each operation of the opening after that: what was synced is read
back, in order, and never anything else (P12, F20, F21)."""

from random import Random

import pytest
from log_kit import SIZES, Machine

from tests.simulation.power_cuts import PowerCut

SEEDS = 12


def history(machine: Machine) -> None:
    """A small life: turns, a checkpoint that is given up, a full disk, a write cut short, a file that grew and is
    shortened."""
    machine.open()
    machine.append(20, 0, 300)
    machine.sync()
    machine.append(700)
    machine.mark(1)
    machine.append(40, 5)
    machine.decide(1)
    machine.append(9)
    machine.mark(2)  # the other file may not be written over yet: the current one was not synced
    machine.append(500, 600)
    machine.sync()
    machine.append(33)
    machine.decide(2)
    machine.mark(3)
    machine.append(100)
    machine.sync()
    machine.mark(4)  # 3 was given up
    machine.append(1_500, 1_500)
    machine.full(3_000, 3_000)
    machine.append(1_000, 2_000)
    machine.sync()
    machine.short(600, 400, 500)
    machine.append(350)
    machine.short(1_100, 500, 500, 500)
    machine.append(12, 13)
    machine.decide(4)
    machine.mark(5)
    machine.append(50)
    machine.sync()
    machine.append(60)
    machine.decide(5)
    machine.mark(6)
    machine.append(70)
    machine.sync()
    machine.append(80)
    machine.append(900)
    machine.close()


def cut_short(machine: Machine, at: int) -> None:
    machine.disk.cut_at = at
    with pytest.raises(PowerCut):
        history(machine)
    machine.lose_power()


def goes_on(machine: Machine) -> None:
    """A later life: what is behind the end of the log is not taken for records, whatever is written there."""
    number = machine.decided + 1
    machine.open()
    machine.append(*[machine.random.randint(0, 800) for _ in range(machine.random.randint(1, 3))])
    machine.mark(number)
    machine.append(300)
    machine.kill()
    machine.open()
    machine.append(20)
    machine.mark(number)
    machine.append(90)
    machine.decide(number)
    machine.mark(number + 1)
    machine.append(30)
    machine.sync()
    machine.append(1)
    machine.lose_power()
    machine.open()


def operations() -> list[str]:
    machine = Machine()
    history(machine)
    return machine.disk.done


def test_the_history_has_each_kind_of_operation_and_both_files() -> None:
    machine = Machine()
    history(machine)
    assert {name.split()[0] for name in machine.disk.done} == {"write", "sync", "allocate", "truncate", "name"}
    assert 40 < len(machine.disk.done) < 120
    assert machine.log.size <= 4 * SIZES.step


@pytest.mark.parametrize("at", range(1, len(operations()) + 1))
def test_what_was_synced_is_there_wherever_the_power_fails_P12_F20(at: int) -> None:
    for seed in range(SEEDS):
        machine = Machine(seed)
        cut_short(machine, at)
        goes_on(machine)


@pytest.mark.parametrize("at", range(1, len(operations()) + 1, 2))
def test_the_opening_after_it_may_fail_as_well_F56(at: int) -> None:
    for second in range(1, 12):
        for seed in range(3):
            machine = Machine(1_000 * second + seed)
            cut_short(machine, at)
            before = len(machine.disk.done)
            machine.disk.cut_at = before + second
            try:
                machine.open()
            except PowerCut:
                machine.lose_power()
            else:
                machine.disk.cut_at = 0
                machine.kill()
            goes_on(machine)


def test_records_that_a_killed_process_has_not_synced_are_durable_once_they_are_read_F18() -> None:
    for seed in range(50):
        machine = Machine(seed)
        machine.open()
        machine.append(*[Random(seed).randint(0, 900) for _ in range(5)])
        machine.append(700)
        machine.kill()
        machine.open()
        assert len(machine.records) == 6
        machine.lose_power()
        machine.open()
        assert len(machine.records) == 6
