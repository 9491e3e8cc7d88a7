"""Several receivers, of which some are away: `Circuits`, without a server."""

from random import Random

from bolts.sinks.http.circuits import CIRCUITS_MAX, Circuits
from bolts.sinks.http.parcels import HeldOutput, Parcel
from bolts.sinks.http.retries import AskedToWait
from topology.clients.errors import ServerAway
from topology.testing.sinks.driver import item

AWAY = ServerAway("it answers 500")


def a_parcel(origin: str) -> Parcel:
    return Parcel([HeldOutput("key", b"", item(1), origin=origin)])


def fails(circuits: Circuits, origin: str, now: float, error: ServerAway = AWAY) -> None:
    parcel = a_parcel(origin)
    circuits.begins(parcel)
    circuits.failed(parcel, error, circuits.of(origin).delivered, now)


def takes(circuits: Circuits, origin: str, now: float = 0.0) -> None:
    parcel = a_parcel(origin)
    circuits.begins(parcel)
    circuits.answered(parcel, now)


def test_one_that_asks_for_time_holds_up_no_other() -> None:
    circuits = Circuits(Random(0))
    fails(circuits, "a", 1.0, AskedToWait("429", 300.0))
    assert not circuits.lets("a", 300.0)
    assert circuits.lets("b", 1.0)
    assert circuits.next_at(1.0) == 301.0
    assert circuits.lets("a", 301.0)


def test_each_has_a_probe_of_its_own() -> None:
    circuits = Circuits(Random(0))
    for origin in ("a", "b"):
        fails(circuits, origin, 0.0)
    probe = a_parcel("a")
    circuits.begins(probe)
    assert not circuits.lets("a", 1.0)
    assert circuits.lets("b", 1.0)
    assert circuits.answered(probe, 1.0) is circuits.of("a")
    assert [*circuits.away] == ["b"]


def test_the_time_for_which_one_is_away_alone_counts_while_others_take_their_records() -> None:
    circuits = Circuits(Random(0))
    fails(circuits, "a", 0.0)
    fails(circuits, "a", 100.0)
    assert circuits.alone_s("a") == 0.0, "nothing else was taken"
    takes(circuits, "b")
    fails(circuits, "a", 150.0)
    assert circuits.alone_s("a") == 50.0
    takes(circuits, "b")
    fails(circuits, "a", 450.0, AskedToWait("429", 300.0))
    assert circuits.alone_s("a") == 50.0, "to be asked to wait is no fault"


def test_the_time_in_which_no_other_can_get_a_record_counts_if_another_has_answered_last() -> None:
    circuits = Circuits(Random(0))

    def fails_with_full_room(now: float, error: ServerAway = AWAY) -> float:
        parcel = a_parcel("a")
        circuits.begins(parcel)
        circuits.failed(parcel, error, circuits.of("a").delivered, now, full_since=90.0)
        return circuits.alone_s("a")

    fails(circuits, "a", 0.0)
    assert fails_with_full_room(100.0) == 0.0, "no other is known"
    fails(circuits, "b", 100.0)
    assert fails_with_full_room(110.0) == 0.0, "the other is away too"
    takes(circuits, "b", 110.0)
    assert fails_with_full_room(120.0) == 10.0, "the other took one"
    assert fails_with_full_room(150.0) == 40.0, "and could have taken more"
    assert fails_with_full_room(450.0, AskedToWait("429", 300.0)) == 40.0
    fails(circuits, "b", 450.0)
    assert fails_with_full_room(460.0) == 40.0


def test_of_the_time_before_the_room_was_full_none_counts_if_no_other_took_a_record() -> None:
    circuits = Circuits(Random(0))
    takes(circuits, "b")
    fails(circuits, "a", 0.0)
    parcel = a_parcel("a")
    circuits.begins(parcel)
    circuits.failed(parcel, AWAY, 0, 100.0, full_since=90.0)
    assert circuits.alone_s("a") == 10.0


def test_what_is_remembered_is_bounded_and_one_that_is_away_is_remembered_longest() -> None:
    circuits = Circuits(Random(0))
    fails(circuits, "away", 0.0, AskedToWait("429", 300.0))
    for number in range(3 * CIRCUITS_MAX):
        takes(circuits, f"origin {number}")
    assert not circuits.lets("away", 1.0)
    for number in range(3 * CIRCUITS_MAX):
        fails(circuits, f"origin {number}", 0.0)
    assert len(circuits.away) == CIRCUITS_MAX
    assert circuits.lets("away", 1.0), "if all are away, the first one is forgotten"


def test_one_with_a_request_under_way_is_not_forgotten() -> None:
    circuits = Circuits(Random(0))
    parcel = a_parcel("busy")
    circuits.begins(parcel)
    busy = circuits.of("busy")
    for number in range(2 * CIRCUITS_MAX):
        takes(circuits, f"origin {number}")
    assert circuits.of("busy") is busy
