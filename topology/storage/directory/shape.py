"""The shape of a topology: the parts that must not change if a run resumes from the data of an earlier one (B11).

These are names, record classes and their fields, subscriptions and their groupings, tasks, state, and the durability
that names outputs: everything that identities and keys are made of. Not the workers, nor the code of bolts, which
cannot be compared. A renamed component is compared under the name that it is known as, and mentioned by its present
one. Pure: a plan in, a value and sentences out. Must not know where the value is stored, nor who prints the sentences.
"""

import json
import typing
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NotRequired, TypedDict

import msgspec

from topology.codes.code import FRESH
from topology.codes.startup import (
    DURABILITY_CHANGED_IN_FLIGHT,
    KEPT_STATE_TYPE_MISMATCH,
    POSSIBLY_RENAMED_BOLT,
    TOPOLOGY_CHANGED_IN_FLIGHT,
    UNREADABLE_LAST_TOPOLOGY,
)
from topology.errors import StartError
from topology.graph import Declared
from topology.groupings import All, Custom
from topology.plan import Plan
from topology.records import Record, field_types, is_record, schema
from topology.signatures import state_type

FORMAT: Final = 1
BY_INPUT: Final = "disk"  # the durability with which outputs of bolts with state are named by their input
TYPE_MAX: Final = 60  # characters of a type in a sentence
TOLD_MAX: Final = 10  # changes that are listed one by one


class ComponentShape(TypedDict):
    """One spout or bolt.

    state  The type of its state; empty if it has none.
    kept   True: the state is in the state directory.
    older  Types whose values can be read as the state's type, too.
    name   The present name, if it is not the one that the component is known as.
    """

    kind: str
    how: str
    tasks: int
    state: str
    streams: dict[str, dict[str, str]]  # record class → field → type, in order
    reads: dict[str, "Read"]  # "emitter[class]" → its grouping
    kept: NotRequired[bool]
    older: NotRequired[list[str]]
    name: NotRequired[str]
    ids: NotRequired[str]  # "own" if each of several tasks of a spout has its own message ids


class Read(TypedDict):
    """The grouping of one stream. `copies`: True if one emission may go to several tasks, each with an identity."""

    grouping: str
    copies: bool


class TopologyShape(TypedDict):
    """A whole topology, by the names that its components are known as. JSON takes it as it is.

    left        Components that keep no state now, or are gone, and whose state is still in the state directory, as they
                were.
    durability  That of the run, if it is not 'disk': outputs of bolts with state are named by their count, and not by
                their input.
    """

    format: int
    components: dict[str, ComponentShape]
    left: NotRequired[dict[str, ComponentShape]]
    durability: NotRequired[str]


@dataclass(frozen=True)
class Change:
    """One difference, in words for a sentence.

    harmless    Input that was read before, and is not done, gets the same identities and keys, so that sinks and states
                recognize it.
    unreadable  Stored data cannot be read any more, even if nothing was in flight.
    durability  The one that the run had, if this is what has changed.
    """

    text: str
    harmless: bool = False
    unreadable: bool = False
    durability: str = ""


def shape_of(plan: Plan) -> TopologyShape:
    """Return the shape of a plan."""
    components = {component.known_as: _component_of(component) for component in plan.components.values()}
    for read in plan.subscriptions:
        emitter = plan.components[read.emitter].known_as
        components[plan.components[read.subscriber].known_as]["reads"][f"{emitter}[{read.cls.__name__}]"] = {
            "grouping": str(read.grouping),
            "copies": isinstance(read.grouping, All | Custom),
        }
    shape: TopologyShape = {"format": FORMAT, "components": components}
    if plan.config.durability != BY_INPUT:
        shape["durability"] = plan.config.durability
    return shape


def _component_of(one: Declared) -> ComponentShape:
    """Return the shape of a component, without its inputs."""
    found: ComponentShape = {
        "kind": one.kind,
        "how": one.shape,
        "tasks": one.tasks,
        "state": "",
        "streams": {cls.__name__: _fields(cls) for cls in one.streams},
        "reads": {},
    }
    if one.shape == "state":
        kind = state_type(one.prototype)
        found["state"], found["kept"] = schema(kind), one.prototype.recovery == "checkpoint"
        if older := [*_older(kind)]:
            found["older"] = older
    if one.known_as != one.name:
        found["name"] = one.name
    if one.kind == "spout" and one.tasks > 1 and not one.prototype.shared_ids:
        found["ids"] = "own"
    return found


def names_in(kept: str | None) -> dict[str, str]:
    """Return the name that a component is known as → its present name, for renamed components of a stored shape, if it
    can be read."""
    return {known_as: component["name"] for known_as, component in components_in(kept).items() if "name" in component}


def components_in(kept: str | None) -> dict[str, ComponentShape]:
    """Return all components of a stored shape, by the names that they are known as; none if it cannot be read."""
    shape = _read(kept) if kept is not None else None
    return shape["components"] if shape is not None else {}


def left_in(kept: str | None) -> dict[str, ComponentShape]:
    """Return the components whose state is still stored and that do not run any more; as `components_in`."""
    shape = _read(kept) if kept is not None else None
    return shape.get("left", {}) if shape is not None else {}


def following(kept: str | None, new: TopologyShape) -> TopologyShape:
    """Return a shape that replaces the stored one, with the components whose state that leaves behind."""
    had = left_in(kept) | {name: component for name, component in components_in(kept).items() if component.get("kept")}
    components = new["components"]
    left = {
        name: component for name, component in had.items() if name not in components or not components[name].get("kept")
    }
    return {**new, "left": left} if left else new


def component_of(text: str) -> ComponentShape | None:
    """Return one component from its JSON; None if it is invalid."""
    try:
        return msgspec.json.decode(text, type=ComponentShape)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def with_components(kept: str | None, components: dict[str, ComponentShape], left: dict[str, ComponentShape]) -> str:
    """Return the stored text of a shape like the stored one, with these components."""
    shape: TopologyShape = {"format": FORMAT, "components": components}
    before = _read(kept) if kept is not None else None
    if before is not None and "durability" in before:
        shape["durability"] = before["durability"]
    if left:
        shape["left"] = left
    return text_of(shape)


def text_of(shape: TopologyShape) -> str:
    """Return the stored text of a shape."""
    return json.dumps(shape, separators=(",", ":"))


def agreed(
    kept: str | None,
    clean: bool,
    new: TopologyShape,
    *,
    accept_duplicates: bool = False,
    begin_empty: Collection[str] = (),
    checkpoint: str = "",
) -> list[str]:
    """Check that a topology of this shape may resume from the data of a run of the shape `kept`. Return a sentence if
    something has changed, and nothing otherwise. `clean`: all input was done when that run ended. `begin_empty`: new
    bolts that were declared to begin without state. `checkpoint`: the name of the kept checkpoint that the data is of,
    if it is not of the last run.

    Raises StartError, with every change, in three cases. Results would be stored again, or keys would begin again.
    Stored state cannot be read, however that run ended. A bolt seems to have another name now.
    """
    if kept is None:
        return []
    since = f"checkpoint {checkpoint!r:.80}" if checkpoint else "the last run"
    is_done = "in which nothing is in flight" if checkpoint else "which had done all that it read"
    is_not_done = "has messages in flight" if checkpoint else "was not done with all that it had read"
    before = _read(kept)
    if before is None:
        text = f"the topology of {since} was noted by another version of Kedge, and can't be compared"
        if clean:
            return [f"{text}; {'nothing is in flight' if checkpoint else 'that run had done all that it read'}"]
        if accept_duplicates:
            return [f"{text}: what was in flight may be stored twice (--accept-duplicates)"]
        raise StartError(text, code=UNREADABLE_LAST_TOPOLOGY, next=_drained(checkpoint, "that version of Kedge"))
    found = changes(before, new)
    harmful = [change for change in found if not change.harmless]
    if not found:
        return []
    if unreadable := [change.text for change in found if change.unreadable]:
        advice = "begin from it with the old code, and export the state: kedge state export" if checkpoint else ""
        text = f"what is kept can't be read any more: {_listed(unreadable)}"
        raise StartError(text, code=KEPT_STATE_TYPE_MISMATCH, next=advice)
    if renamed := [*_seem_renamed(before, new, begin_empty)]:
        raise StartError(_listed(renamed), code=POSSIBLY_RENAMED_BOLT)
    listed = _listed([change.text for change in found])
    if not harmful:
        return [f"the topology has changed, and what was in flight fits into it: {listed}"]
    if clean:
        return [f"the topology has changed since {since}, {is_done}: {listed}"]
    if accept_duplicates:
        return [f"the topology has changed, and what was in flight may be stored twice (--accept-duplicates): {listed}"]
    if all(change.durability for change in harmful):
        option = f"--config durability={harmful[0].durability}"
        had = f"run once more with {option}, and end it by kedge stop --drain"
        advice = _drained(checkpoint, option) or f"{had}; or accept duplicates, --accept-duplicates; or {FRESH}"
        text = f"{since} {is_not_done}, and {harmful[0].text}"
        raise StartError(text, code=DURABILITY_CHANGED_IN_FLIGHT, next=advice)
    listed = _listed([change.text for change in harmful])
    text = f"the topology has changed since {since}, which {is_not_done}: {listed}"
    raise StartError(text, code=TOPOLOGY_CHANGED_IN_FLIGHT, next=_drained(checkpoint, "the old code"))


def _drained(checkpoint: str, what: str) -> str:
    """Return the advice for a checkpoint that has messages in flight; empty without a checkpoint."""
    if not checkpoint:
        return ""
    drain = f"begin from it once with {what}, and end that run by kedge stop --drain; then run without --from"
    return f"{drain}; or accept duplicates, --accept-duplicates"


def _seem_renamed(old: TopologyShape, new: TopologyShape, begin_empty: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each bolt that is gone since the last run and whose state is stored, if a new bolt keeps
    state of its type. A bolt that is only gone, or only new, is not reported, nor is one whose state the new bolt could
    not read."""
    before, after = old["components"], new["components"]
    known = before | old.get("left", {})
    fresh = [name for name in after if after[name].get("kept") and name not in known and name not in begin_empty]
    for name, was in before.items():
        if name in after or not was.get("kept"):
            continue
        like = [
            candidate
            for candidate in fresh
            if was["state"] in (after[candidate]["state"], *after[candidate].get("older", ()))
        ]
        if like:
            what = " or ".join(repr(after[candidate].get("name", candidate)) for candidate in like)
            yield (
                f"bolt {was.get('name', name)!r} is gone, whose state is kept, and {what} is new with such a state: "
                f"renamed_from={name!r} carries it over, begins_empty=True starts from nothing"
            )


def changes(old: TopologyShape, new: TopologyShape) -> list[Change]:
    """Return the differences, in the order of the old topology, and then the new components."""
    before, after = old["components"], new["components"]
    names = {name: component.get("name", name) for name, component in (before | after).items()}
    found: list[Change] = []
    reported: set[str] = set()  # a class that several components emit changes once
    for name, was in before.items():
        if name not in after:
            found.append(Change(f"{was['kind']} {names[name]!r} is gone"))
            continue
        found += [change for change in _component(name, was, after[name], names) if change.text not in reported]
        reported.update(change.text for change in found)
    return [
        *_other_names(old, new, names),
        *found,
        *_again(old.get("left", {}), after, names),
        *(
            Change(f"{component['kind']} {names[name]!r} is new", True)
            for name, component in after.items()
            if name not in before
        ),
    ]


def _other_names(old: TopologyShape, new: TopologyShape, names: Mapping[str, str]) -> Iterator[Change]:
    """Yield the change of durability, if it gives outputs of bolts with state other names: sinks would not recognize
    what was stored before."""
    was, now = old.get("durability", BY_INPUT), new.get("durability", BY_INPUT)
    if (was == BY_INPUT) == (now == BY_INPUT):
        return
    before, after = old["components"], new["components"]
    concerned = [
        repr(names[name]) for name, one in before.items() if one.get("kept") and one["streams"] and name in after
    ]
    if concerned:
        text = f"durability is {now!r} in place of {was!r}, which gives the outputs of {_and(concerned)} other names"
        yield Change(text, durability=was)


def _component(known_as: str, was: ComponentShape, now: ComponentShape, names: Mapping[str, str]) -> Iterator[Change]:
    """Yield the differences of a component that is in both shapes.

    The number of tasks affects identities only if every task gets a copy, or if each task of a spout has its own ids
    (B14). Otherwise an identity is the same wherever the tuple goes (B1), positions belong to partitions, and state and
    journal move by slot. `spout_tasks` handles the effect of a spout's number of tasks on state.
    """
    name = names[known_as]
    if was["kind"] != now["kind"]:
        yield Change(f"{name!r} is a {now['kind']} in place of a {was['kind']}")
        return
    copied = any(read["copies"] for part in (was, now) for read in part["reads"].values())
    if was["tasks"] != now["tasks"]:
        count = f"{now['tasks']} task{'s' * (now['tasks'] != 1)}"
        yield Change(f"{name!r} has {count} in place of {was['tasks']}", not copied and not has_own_ids(was, now))
    elif has_own_ids(was) != has_own_ids(now):
        had = (
            "had shared one set of message ids, and each has its own now"
            if has_own_ids(now)
            else ("had message ids of their own, and share one set now")
        )
        yield Change(f"the tasks of {name!r} {had} (shared_ids)")
    if was["how"] != now["how"]:
        harmless = (was["how"], now["how"]) == ("process", "journal")  # the same identities, journaled from now on
        yield Change(f"{name!r} has {_method(now)} in place of {_method(was)}", harmless)
    elif was["state"] != now["state"]:
        yield _other_state(name, was, now)
    yield from _streams(name, was["streams"], now["streams"])
    keyed = "state" in (was["how"], now["how"]) or was["how"] == "journal"
    yield from _reads(name, _by_names(was["reads"], names), _by_names(now["reads"], names), keyed)


def has_own_ids(*parts: ComponentShape) -> bool:
    """Return True if each task of a spout has its own message ids, in one of these."""
    return any("ids" in part for part in parts)


def _again(
    left: Mapping[str, ComponentShape], after: Mapping[str, ComponentShape], names: Mapping[str, str]
) -> Iterator[Change]:
    """Yield the components that keep state now, and of which an earlier run has left some."""
    for known_as, was in left.items():
        if known_as in after and after[known_as].get("kept"):
            name, now = names[known_as], after[known_as]
            yield Change(f"{name!r} resumes with the state that an earlier run has left", True)
            if was["state"] != now["state"]:
                yield _other_state(name, was, now)


def _other_state(name: str, was: ComponentShape, now: ComponentShape) -> Change:
    """Return the change of a state's type; it is harmless if stored values can be read as the new type, too."""
    text = f"the state of {name!r} is {_cut(now['state'])} in place of {_cut(was['state'])}"
    readable = was["state"] in now.get("older", ())
    return Change(text, readable, unreadable=was.get("kept", False) and not readable)


def _streams(name: str, was: Mapping[str, dict[str, str]], now: Mapping[str, dict[str, str]]) -> Iterator[Change]:
    for cls, fields in was.items():
        if cls in now:
            yield from _field_changes(cls, fields, now[cls])
        else:
            yield Change(f"{name!r} emits no {cls} any more")
    yield from (Change(f"{name!r} emits {cls} too", True) for cls in now if cls not in was)


def _field_changes(cls: str, was: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Change]:
    for field, kind in was.items():
        if field not in now:
            yield Change(f"field {field!r} of {cls} is gone")
        elif now[field] != kind:
            yield Change(f"field {field!r} of {cls} is {_cut(now[field])} in place of {_cut(kind)}")
    yield from (Change(f"field {field!r} of {cls} is new") for field in now if field not in was)
    if was.keys() == now.keys() and [*was] != [*now]:
        yield Change(f"the fields of {cls} stand in another order")


def _reads(name: str, was: Mapping[str, Read], now: Mapping[str, Read], keyed: bool) -> Iterator[Change]:
    for stream, read in was.items():
        if stream not in now:
            yield Change(f"{name!r} does not read {stream} any more")
        elif now[stream] != read:
            harmless = not keyed and not read["copies"] and not now[stream]["copies"]
            yield Change(
                f"{name!r} reads {stream} by {now[stream]['grouping']} in place of {read['grouping']}", harmless
            )
    yield from (Change(f"{name!r} reads {stream} too", True) for stream in now if stream not in was)


def _by_names(reads: Mapping[str, Read], names: Mapping[str, str]) -> dict[str, Read]:
    """Return the inputs by the present names of their emitters."""
    said = {stream: stream.partition("[") for stream in reads}
    return {f"{names.get(said[stream][0], said[stream][0])}[{said[stream][2]}": read for stream, read in reads.items()}


def _read(kept: str) -> TopologyShape | None:
    try:
        return msgspec.json.decode(kept, type=_Kept).whole
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


class _Kept(msgspec.Struct):
    """A shape from JSON; all its parts have the right types."""

    format: typing.Literal[1]
    components: dict[str, ComponentShape]
    left: dict[str, ComponentShape] = {}
    durability: typing.Literal["disk", "process", "checkpoint"] = BY_INPUT

    @property
    def whole(self) -> TopologyShape:
        components, durability = self.components, self.durability
        return {"format": self.format, "components": components, "left": self.left, "durability": durability}


def _fields(cls: type[Record]) -> dict[str, str]:
    return {name: schema(kind) for name, kind in field_types(cls).items()}


def _older(kind: Any) -> Iterator[str]:
    """Yield the types whose values are decoded as this one: a record without one or more of its last fields, if these
    have defaults."""
    if not is_record(kind):
        return
    fields = msgspec.structs.fields(kind)
    texts = [f"{field.name}: {schema(field.type)}" for field in fields]  # as in `schema`, of which each is a beginning
    for count in range(len(fields) - 1, -1, -1):
        if fields[count].required:
            return
        yield f"{kind.__qualname__}({', '.join(texts[:count])})"


def _method(one: ComponentShape) -> str:
    known = {"state": "process with state", "journal": "process that is not deterministic"}
    return known.get(one["how"], one["how"])


def _listed(texts: list[str]) -> str:
    more = len(texts) - TOLD_MAX
    return "; ".join([*texts[:TOLD_MAX], *([f"and {more:,} more changes"] if more > 0 else [])])


def _and(names: list[str]) -> str:
    return ", ".join(names) if len(names) > 2 else " and ".join(names)


def _cut(text: str) -> str:
    text = text.replace("Ellipsis", "...")
    return text if len(text) <= TYPE_MAX else f"{text[: TYPE_MAX - 1]}…"
