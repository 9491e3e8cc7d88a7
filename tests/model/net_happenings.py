"""What can happen in the model with sub-trees, as a table, like that of the chain."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from happenings import Pick
from net import Net
from orders import Wrong
from timing import Timing


def source(net: Net, pick: Pick) -> int:
    index: int = pick(sorted(net.sources.values()))
    return index


def emit(net: Net, pick: Pick) -> None:
    net.spouts[source(net, pick)].emit()


def announce(net: Net, pick: Pick) -> None:
    net.announce(pick(net.homes), pick([4, *net.middle_numbers]))


def one_hears_all(net: Net, pick: Pick) -> None:
    net.tell_all([pick([4, *net.middle_numbers])])


def marked(net: Net, pick: Pick) -> None:
    """What is done is durable, and told."""
    for index in net.sources.values():
        net.mark(index)
    if listeners := pick([[*net.middle_numbers, 4], [], [4]]):
        net.tell_all(listeners)


def fail(net: Net, pick: Pick) -> None:
    home = net.spouts[source(net, pick)]
    if home.flights:
        message = pick(sorted(home.flights))
        home.failed(message)
        if pick([True, False]):
            home.die(message)


def all_die(net: Net, pick: Pick) -> None:
    """Whatever is under way is a dead letter."""
    for home in net.spouts.values():
        for message in list(home.flights):
            home.die(message)


def replay_by_hand(net: Net, pick: Pick) -> None:
    for home in net.spouts.values():
        for message in home.letters():
            home.replay_by_hand(message)


def hears(net: Net, pick: Pick) -> None:
    for index in [pick(net.homes)] if pick([False, True]) else net.homes:
        net.hears(index)


def fire(net: Net, pick: Pick) -> None:
    if isinstance(net.middle, Timing):
        net.middle.fire()


def again(net: Net, pick: Pick) -> None:
    if net.middle.begun:
        number = pick(range(1, len(net.middle.begun) + 1))
        if isinstance(net.middle, Timing) and number not in net.middle.done:
            net.middle.again(number)


def slow(net: Net, pick: Pick) -> None:
    """A tuple is held up before a bolt, having got there."""
    counting = pick([True, False])
    if counting:
        net.flow(far=False)
    else:
        net.replay()
    net.slow(counting=counting)


def overtaken(net: Net, pick: Pick) -> None:
    """A tuple is held up, and its message done by another one."""
    for home in net.spouts.values():
        home.emit()
    net.slow(counting=False)
    for home in net.spouts.values():
        for message in home.flights:
            home.failed(message)
    net.flow()


def arrives_late(net: Net, pick: Pick) -> None:
    """What was slow comes to a bolt that has nothing else to do."""
    net.release()
    net.flow()


def fires(net: Net, pick: Pick) -> None:
    """A message sets a timer, which fires at once; what that puts out is not done yet."""
    net.spouts[0].emit()
    net.flow()
    fire(net, pick)
    net.mark(0)


def rescale(net: Net, pick: Pick) -> None:
    if net.kind == "times":
        net.rescale(torn=pick([False, True]))


NET_HAPPENINGS: Final[Mapping[str, Callable[[Net, Pick], None]]] = {
    "emit": emit,
    "flow": lambda net, pick: net.flow(far=pick([True, False])),
    "marked": marked,
    "gather": lambda net, pick: net.gather(source(net, pick)),
    "kept": lambda net, pick: net.kept(source(net, pick)),
    "announce": announce,
    "one_hears_all": one_hears_all,
    "told": lambda net, pick: net.tell_all(),
    "hears": hears,
    "fail": fail,
    "all_die": all_die,
    "replay_by_hand": replay_by_hand,
    "fire": fire,
    "again": again,
    "fires": fires,
    "commit": lambda net, pick: net.middle.commit(),
    "count": lambda net, pick: net.count(),
    "slow": slow,
    "overtaken": overtaken,
    "arrives_late": arrives_late,
    "arrives": lambda net, pick: net.release(),
    "replaced": lambda net, pick: net.replaced(pick([net.place, *net.homes, 4])),
    "power_loss": lambda net, pick: net.power_loss(),
    "rescale": rescale,
}

# What the rarest mistakes take: all that happens in some walks.
USUAL: Final = ["emit", "flow", "marked"]
NET_FOCI: Final[Mapping[str, Sequence[list[str]]]] = {
    "joins": (
        [*USUAL, "slow", "arrives", "fail", "announce"],
        [*USUAL, "replaced", "hears", "told", "all_die", "replay_by_hand"],
    ),
    "gathers": (
        [*USUAL, "replaced", "hears", "told", "all_die", "replay_by_hand"],
        ["overtaken", "replaced", "hears", "one_hears_all", "marked", "arrives_late"],
    ),
    "spreads": (
        [*USUAL, "replaced", "hears", "told", "all_die", "replay_by_hand"],
        ["overtaken", "replaced", "hears", "one_hears_all", "marked", "arrives_late"],
        ["overtaken", "one_hears_all", "marked", "arrives_late", "told"],
    ),
    "times": (
        [*USUAL, "fire", "commit", "replaced", "hears", "told"],
        ["fires", "replaced", "hears", "slow", "told", "arrives"],
        [*USUAL, "fire", "rescale"],
    ),
}

# Which bolt finds out which wrong order; all others are for the chain.
FOUND_BY: Final[Mapping[Wrong, str]] = {
    Wrong.FORGOTTEN_ON_ANY_FLOOR: "joins",
    Wrong.REFUSED_ON_ALL_FLOORS: "joins",
    Wrong.TIMER_REMOVED_BEFORE: "times",
    Wrong.TIMER_REMOVED_AFTER: "times",
    Wrong.OUTPUT_FORGOTTEN_WHEN_SENT: "times",
    Wrong.OVER_BEFORE_REMOVAL: "times",
    Wrong.CAUGHT_UP_WHEN_SENT: "times",
    Wrong.KNOWN_STAYS_BEHIND: "times",
    Wrong.TIMERS_STAY_BEHIND: "times",
    Wrong.LEFT_OVERS_STAY: "times",
    Wrong.OVER_WHEN_COMPLETE: "gathers",
    Wrong.OVER_AT_THE_NEXT_LIFE: "gathers",
    Wrong.OVER_ALTHOUGH_DEAD: "gathers",
    Wrong.SUBROOTS_ARE_CAUSES: "gathers",
    Wrong.SUBROOT_BEFORE_HEARING: "gathers",
    Wrong.SUBROOT_FOR_THE_STALE: "gathers",
    Wrong.OVER_BY_OWN_KNOWLEDGE: "spreads",
    Wrong.STALE_SUBROOTS_TAKEN: "gathers",
}
