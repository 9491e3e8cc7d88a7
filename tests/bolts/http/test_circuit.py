"""Whose fault a failure is, and when the next attempt is due: `Circuit`, without a server."""

from random import Random

from bolts.sinks.http.circuit import AGAIN_LAST_S, PROBE_LAST_S, Circuit
from bolts.sinks.http.parcels import HeldOutput, Parcel
from bolts.sinks.http.retries import AskedToWait
from topology.clients.errors import ServerAway
from topology.testing.sinks.driver import item

AWAY = ServerAway("it answers 500")


def a_parcel() -> Parcel:
    return Parcel([HeldOutput("key", b"", item(1))])


def fails(circuit: Circuit, parcel: Parcel, now: float, error: ServerAway = AWAY) -> bool:
    """An attempt that begins and fails, with nothing else meanwhile; whether the fault is the parcel's."""
    circuit.begins(parcel)
    return circuit.failed(parcel, error, circuit.delivered, now)


def is_taken(circuit: Circuit, now: float = 0.0) -> None:
    other = a_parcel()
    circuit.begins(other)
    circuit.answered(other, now)


def test_a_first_failure_is_the_receivers() -> None:
    circuit, parcel = Circuit(Random(0)), a_parcel()
    assert not fails(circuit, parcel, 10.0)
    assert circuit.is_open
    assert 10.0 < circuit.until < 10.2


def test_what_fails_while_others_are_delivered_is_a_fault_of_its_own() -> None:
    circuit, parcel = Circuit(Random(0)), a_parcel()
    circuit.begins(parcel)
    is_taken(circuit)
    assert circuit.failed(parcel, AWAY, 0, 10.0)
    assert not circuit.is_open
    assert parcel.due_at > 10.0


def test_one_that_keeps_failing_alone_is_never_taken_for_an_outage_again() -> None:
    circuit, parcel = Circuit(Random(0)), a_parcel()
    fails(circuit, parcel, 0.0)
    is_taken(circuit)
    for now in range(1, 100):
        assert fails(circuit, parcel, float(now)), "others were delivered since it failed first"
        assert not circuit.is_open


def test_two_that_fail_with_nothing_delivered_between_are_an_outage() -> None:
    circuit, one, other = Circuit(Random(0)), a_parcel(), a_parcel()
    fails(circuit, one, 0.0)
    is_taken(circuit)
    assert fails(circuit, one, 1.0)
    assert not fails(circuit, other, 2.0)
    assert circuit.is_open
    assert not fails(circuit, one, 3.0)


def test_what_fails_though_another_was_delivered_meanwhile_says_nothing_of_the_receiver() -> None:
    circuit, one, other = Circuit(Random(0)), a_parcel(), a_parcel()
    circuit.begins(one)
    is_taken(circuit)
    circuit.begins(other)
    circuit.failed(other, AWAY, 1, 1.0)
    assert circuit.is_open
    assert circuit.failed(one, AWAY, 0, 1.0), "one was delivered since it began, though another has failed too"
    assert circuit.failures == 1


def test_probes_back_off_to_a_bound_and_an_answer_closes() -> None:
    circuit, parcel = Circuit(Random(0)), a_parcel()
    now, waits = 0.0, []
    for _ in range(15):
        fails(circuit, parcel, now)
        waits.append(circuit.until - now)
        now = circuit.until
    assert waits[0] <= 0.1
    assert PROBE_LAST_S / 2 <= waits[-1] <= PROBE_LAST_S
    assert circuit.failures == 15
    is_taken(circuit)
    assert not circuit.is_open


def test_probes_that_are_new_do_not_make_the_pause_longer_and_repeated_ones_do() -> None:
    circuit, parcel = Circuit(Random(0)), a_parcel()
    fails(circuit, parcel, 0.0)
    for _ in range(20):
        now = circuit.until
        fails(circuit, a_parcel(), now)
        assert circuit.until - now <= 0.1
    now = circuit.until
    fails(circuit, parcel, now)
    assert 0.1 <= circuit.until - now <= 0.2


def test_time_of_an_outage_does_not_count_as_alone_though_the_record_was_not_tried_in_it() -> None:
    circuit, parcel = Circuit(Random(0)), a_parcel()
    circuit.begins(parcel)
    is_taken(circuit)
    assert circuit.failed(parcel, AWAY, 0, 10.0)
    fails(circuit, a_parcel(), 20.0)
    assert circuit.is_open
    is_taken(circuit, 920.0)
    fails(circuit, parcel, 930.0)
    assert parcel.alone_s == 20.0


def test_those_under_way_when_it_opens_do_not_make_the_pause_longer() -> None:
    circuit = Circuit(Random(0))
    parcels = [a_parcel() for _ in range(8)]
    for parcel in parcels:
        circuit.begins(parcel)
    for parcel in parcels:
        circuit.failed(parcel, AWAY, 0, 1.0)
    assert circuit.failures == 1
    assert circuit.until <= 1.1


def test_the_pause_that_a_receiver_asks_for_is_kept() -> None:
    circuit, parcel = Circuit(Random(0)), a_parcel()
    fails(circuit, parcel, 5.0, AskedToWait("429", 30.0))
    assert circuit.until == 35.0


def test_time_counts_as_alone_only_between_two_failures_of_its_own() -> None:
    circuit, parcel = Circuit(Random(0)), a_parcel()
    fails(circuit, parcel, 0.0)
    fails(circuit, parcel, 10_000.0)
    is_taken(circuit, 10_000.0)
    fails(circuit, parcel, 20_000.0)
    assert parcel.alone_s == 0.0, "an outage is over, which was not its own"
    is_taken(circuit)
    fails(circuit, parcel, 20_050.0)
    assert parcel.alone_s == 50.0
    fails(circuit, parcel, 20_100.0)
    assert parcel.alone_s == 50.0, "nothing was delivered meanwhile, so nothing is known"
    is_taken(circuit)
    fails(circuit, parcel, 20_150.0, AskedToWait("429", 1.0))
    assert parcel.alone_s == 50.0, "to be asked to wait is no fault"


def test_own_failures_back_off_to_a_bound() -> None:
    circuit, parcel = Circuit(Random(0)), a_parcel()
    fails(circuit, parcel, 0.0)
    now = 0.0
    for _ in range(20):
        is_taken(circuit)
        fails(circuit, parcel, now)
        wait, now = parcel.due_at - now, parcel.due_at
    assert AGAIN_LAST_S / 2 <= wait <= AGAIN_LAST_S
