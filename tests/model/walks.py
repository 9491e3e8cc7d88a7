"""Lives of the models' worlds, drawn by seeds."""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from happenings import FOCI, HAPPENINGS
from net import Net
from net_happenings import FOUND_BY, NET_FOCI, NET_HAPPENINGS, USUAL
from orders import Wrong
from world import World

STEPS_MAX: Final = 30  # of one walk
CHAIN: Final = "chain"


def made(kind: str, wrong: Wrong | None = None) -> tuple[Any, Any]:
    """A world, and what can happen to it."""
    return (World(wrong), HAPPENINGS) if kind == CHAIN else (Net(kind, wrong), NET_HAPPENINGS)


def walk(seed: int, wrong: Wrong | None = None, kind: str = "") -> list[str]:
    """A life of a world, of the one that finds this order out where none is named; what has happened. Raises
    AssertionError, with that as a note, where something was lost or doubled."""
    random = Random(seed)
    kind = kind or (FOUND_BY.get(wrong, CHAIN) if wrong else CHAIN)
    world, table = made(kind, wrong)
    usual = ["emit", "flow", "mark"] if kind == CHAIN else USUAL
    foci = [usual + one for one in FOCI] if kind == CHAIN else NET_FOCI[kind]
    happened: list[str] = []

    def pick(choices: Sequence[Any]) -> Any:
        happened.append(str(one := random.choice([choices[0], *choices])))
        return one

    some = random.choice([*foci, usual + random.sample([*table], random.randint(3, len(table)))])
    try:
        for name in random.choices(some, k=random.randint(4, STEPS_MAX)):
            happened.append(name)
            table[name](world, pick)
            world.check()
        world.heal()
    except AssertionError as error:
        error.add_note(f"{kind}, seed {seed}: {' '.join(happened)}")
        raise
    return happened
