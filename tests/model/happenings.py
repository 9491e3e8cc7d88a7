"""What can happen to the model's world, as a table: what should, and what should not and will. Whoever picks is told of
the choices; must not know whether that is Hypothesis or a seed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from world import World

Pick = Callable[[Sequence[Any]], Any]


def queued(world: World, *stages: int) -> list[int]:
    """Those of these bolts that have something to do."""
    return [stage for stage in stages or (1, 2, 3) if world.bolts[stage].queue]


def emit(world: World, pick: Pick) -> None:
    world.home.emit()


def flow(world: World, pick: Pick) -> None:
    world.flow(pick([4, 3, 2]), commits=pick([True, False]))


def work(world: World, pick: Pick) -> None:
    if queued(world):
        bolt = world.bolts[pick(queued(world))]
        bolt.work()
        if pick([True, False]):
            bolt.send()


def commit(world: World, pick: Pick) -> None:
    bolt = world.bolts[pick([1, 2, 3])]
    bolt.commit()
    if pick([True, False]):
        bolt.send()


def store_is_full(world: World, pick: Pick) -> None:
    stage = pick([2, 1, 3, 0])
    if stage:
        bolt = world.bolts[stage]
        while bolt.queue:
            bolt.work()
        bolt.store_is_full()
        if pick([True, False]):
            world.flow()
    else:
        world.home.gathered = None


def gather(world: World, pick: Pick) -> None:
    if world.home.gathered is None:
        world.home.gather()


def kept(world: World, pick: Pick) -> None:
    if world.home.gathered is not None:
        world.home.kept()


def announce(world: World, pick: Pick) -> None:
    for bolt in world.bolts.values():
        bolt.announced(world.home.floor())


def fail(world: World, pick: Pick) -> None:
    if world.home.flights:
        message = pick(sorted(world.home.flights))
        world.home.failed(message)
        if pick([True, False]):
            world.home.die(message)


def replay_by_hand(world: World, pick: Pick) -> None:
    if world.home.letters():
        world.home.replay_by_hand(pick(world.home.letters()))


def bolt_raises(world: World, pick: Pick) -> None:
    if queued(world, 1, 2):
        world.bolts[pick(queued(world, 1, 2))].work(raises=True)


def is_slow(world: World, pick: Pick) -> None:
    """A tuple is held up before a bolt; its tree may time out meanwhile, or be given up."""
    stage = pick([2, 1, 3])
    world.flow(stage)
    if queued(world, stage):
        message = world.hold(stage)
        if then := pick(["times out", "dies", ""]):
            world.home.failed(message)
        if then == "dies" and message in world.home.flights:
            world.home.die(message)


def replaced(world: World, pick: Pick) -> None:
    world.replace(pick([0, 1, 2, 3]), lives_on=pick([True, False]))


def wakes(world: World, pick: Pick) -> None:
    if world.zombies:
        world.wake()


HAPPENINGS: Final[Mapping[str, Callable[[World, Pick], None]]] = {
    "emit": emit,
    "flow": flow,
    "work": work,
    "commit": commit,
    "store_is_full": store_is_full,
    "mark": lambda world, pick: world.mark(),
    "gather": gather,
    "kept": kept,
    "announce": announce,
    "fail": fail,
    "replay_by_hand": replay_by_hand,
    "bolt_raises": bolt_raises,
    "is_slow": is_slow,
    "arrives": lambda world, pick: world.release(),
    "replaced": replaced,
    "wakes": wakes,
    "power_loss": lambda world, pick: world.power_loss(),
    "recreate": lambda world, pick: world.recreate(),
}


# What the rarest mistakes take: walks of these alone are a part of all walks.
FOCI: Final = (
    ["is_slow", "replaced"],
    ["is_slow", "replay_by_hand", "replaced", "fail"],
    ["gather", "announce", "power_loss", "replaced"],
    ["is_slow", "replaced", "wakes", "kept"],
    ["work", "store_is_full", "gather", "kept", "replaced"],
)
