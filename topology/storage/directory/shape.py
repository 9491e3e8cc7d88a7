"""The shape of a topology: what must be as it was, where a run goes on from what an earlier one has left (B11).

Names, record classes and their fields, who reads whom and by which grouping, tasks, state: whatever identities and keys
are made of. Not the workers, nor the code of bolts, which nobody can compare. A component that has another name now is
compared under the one that it is known as, and spoken of by its present one. Pure: a plan in, a value and sentences
out. Must not know where the value is kept, nor who tells the sentences.
"""

import json
import typing
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NotRequired, TypedDict

import msgspec

from topology.codes.startup import (
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
TYPE_MAX: Final = 60  # characters of a type in a sentence
TOLD_MAX: Final = 10  # changes that are told one by one


class ComponentShape(TypedDict):
    """One spout or bolt. `state` is the type of its state, and empty where it has none; `kept`: it is in the state
    directory; `older`: types whose values are read as it, too. `name` is the present one, where it is another than the
    one that the component is known as."""

    kind: str
    how: str
    tasks: int
    state: str
    streams: dict[str, dict[str, str]]  # record class → field → type, in order
    reads: dict[str, "Read"]  # "emitter[class]" → how
    kept: NotRequired[bool]
    older: NotRequired[list[str]]
    name: NotRequired[str]
    ids: NotRequired[str]  # "own" where each of several tasks of a spout has message ids of its own


class Read(TypedDict):
    """How one stream is read. `copies`: whether one emission may go to several tasks, each with an identity."""

    grouping: str
    copies: bool


class TopologyShape(TypedDict):
    """A whole topology, by the names that its components are known as. JSON takes it as it is. `left`: as they were,
    those that keep no state now, or are there no more, and whose state is in the state directory still."""

    format: int
    components: dict[str, ComponentShape]
    left: NotRequired[dict[str, ComponentShape]]


@dataclass(frozen=True)
class Change:
    """One difference, in a sentence's words. `harmless`: what was read before, and is not done, gets the identities and
    keys that it had, so that sinks and states know it again. `unreadable`: what is kept can't be read any more, whether
    or not something was in flight."""

    text: str
    harmless: bool = False
    unreadable: bool = False


def shape_of(plan: Plan) -> TopologyShape:
    """The shape of what a plan runs."""
    components = {one.known_as: _component_of(one) for one in plan.components.values()}
    for read in plan.subscriptions:
        emitter = plan.components[read.emitter].known_as
        components[plan.components[read.subscriber].known_as]["reads"][f"{emitter}[{read.cls.__name__}]"] = {
            "grouping": str(read.grouping),
            "copies": isinstance(read.grouping, All | Custom),
        }
    return {"format": FORMAT, "components": components}


def _component_of(one: Declared) -> ComponentShape:
    """Without what it reads."""
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
    """The name that a component is known as → its present one, of those that have another one; of a shape as it is
    kept, if it can be read."""
    return {known_as: one["name"] for known_as, one in components_in(kept).items() if "name" in one}


def components_in(kept: str | None) -> dict[str, ComponentShape]:
    """All components, by the names that they are known as; of a shape as it is kept, none where it can't be read."""
    shape = _read(kept) if kept is not None else None
    return shape["components"] if shape is not None else {}


def left_in(kept: str | None) -> dict[str, ComponentShape]:
    """Those whose state is there still, without being theirs that run; as `components_in`."""
    shape = _read(kept) if kept is not None else None
    return shape.get("left", {}) if shape is not None else {}


def following(kept: str | None, new: TopologyShape) -> TopologyShape:
    """A shape that takes the place of the one that is kept, with what that leaves of state."""
    had = left_in(kept) | {name: one for name, one in components_in(kept).items() if one.get("kept")}
    components = new["components"]
    left = {name: one for name, one in had.items() if name not in components or not components[name].get("kept")}
    return {"format": FORMAT, "components": components, "left": left} if left else new


def component_of(text: str) -> ComponentShape | None:
    """One component, as JSON has it; None where it is none."""
    try:
        return msgspec.json.decode(text, type=ComponentShape)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def with_components(components: dict[str, ComponentShape], left: dict[str, ComponentShape]) -> str:
    """The shape of these, as it is kept."""
    shape: TopologyShape = {"format": FORMAT, "components": components}
    if left:
        shape["left"] = left
    return text_of(shape)


def text_of(shape: TopologyShape) -> str:
    """As it is kept."""
    return json.dumps(shape, separators=(",", ":"))


def agreed(
    kept: str | None,
    clean: bool,
    new: TopologyShape,
    *,
    accept_duplicates: bool = False,
    begin_empty: Collection[str] = (),
) -> list[str]:
    """Whether a topology of this shape may go on from what a run of the shape `kept` has left: a sentence where it may
    and something has changed, nothing where nothing has. `clean`: all that was read had been done when that run ended.
    `begin_empty`: new bolts of which somebody has said that they go on with nothing.

    Raises StartError, with every change, where it may not: results would be stored again, keys begin anew, or, however
    that run ended, what is kept of a state can't be read, or its bolt seems to have another name now.
    """
    if kept is None:
        return []
    before = _read(kept)
    if before is None:
        text = "the last run's topology was noted by another version of Kedge, and can't be compared"
        if clean:
            return [f"{text}; that run had done all that it read"]
        if accept_duplicates:
            return [f"{text}: what was in flight may be stored twice (--accept-duplicates)"]
        raise StartError(text, code=UNREADABLE_LAST_TOPOLOGY)
    found = changes(before, new)
    harmful = [one for one in found if not one.harmless]
    if not found:
        return []
    if unreadable := [one.text for one in found if one.unreadable]:
        raise StartError(f"what is kept can't be read any more: {_listed(unreadable)}", code=KEPT_STATE_TYPE_MISMATCH)
    if renamed := [*_seem_renamed(before, new, begin_empty)]:
        raise StartError(_listed(renamed), code=POSSIBLY_RENAMED_BOLT)
    listed = _listed([one.text for one in found])
    if not harmful:
        return [f"the topology has changed, and what was in flight fits into it: {listed}"]
    if clean:
        return [f"the topology has changed since the last run, which had done all that it read: {listed}"]
    if accept_duplicates:
        return [f"the topology has changed, and what was in flight may be stored twice (--accept-duplicates): {listed}"]
    listed = _listed([one.text for one in harmful])
    text = f"the topology has changed since the last run, which was not done with all that it had read: {listed}"
    raise StartError(text, code=TOPOLOGY_CHANGED_IN_FLIGHT)


def _seem_renamed(old: TopologyShape, new: TopologyShape, begin_empty: Collection[str]) -> Iterator[str]:
    """A sentence for each bolt that is gone since the last run, whose state is kept, where a new one keeps state of its
    type. One that is only gone, or only new, is none of them, nor is one whose state the new one could not read."""
    before, after = old["components"], new["components"]
    known = before | old.get("left", {})
    fresh = [one for one in after if after[one].get("kept") and one not in known and one not in begin_empty]
    for name, was in before.items():
        if name in after or not was.get("kept"):
            continue
        like = [one for one in fresh if was["state"] in (after[one]["state"], *after[one].get("older", ()))]
        if like:
            what = " or ".join(repr(after[one].get("name", one)) for one in like)
            yield (
                f"bolt {was.get('name', name)!r} is gone, whose state is kept, and {what} is new with such a state: "
                f"renamed_from={name!r} carries it over, begins_empty=True starts from nothing"
            )


def changes(old: TopologyShape, new: TopologyShape) -> list[Change]:
    """What differs, in the order of the old topology, and then what is new."""
    before, after = old["components"], new["components"]
    names = {name: one.get("name", name) for name, one in (before | after).items()}
    found: list[Change] = []
    told: set[str] = set()  # a class that several components emit changes once
    for name, was in before.items():
        if name not in after:
            found.append(Change(f"{was['kind']} {names[name]!r} is gone"))
            continue
        found += [one for one in _component(name, was, after[name], names) if one.text not in told]
        told.update(one.text for one in found)
    return [
        *found,
        *_again(old.get("left", {}), after, names),
        *(Change(f"{one['kind']} {names[name]!r} is new", True) for name, one in after.items() if name not in before),
    ]


def _component(known_as: str, was: ComponentShape, now: ComponentShape, names: Mapping[str, str]) -> Iterator[Change]:
    """One that is in both. The number of tasks decides over identities where every task gets a copy, and where each
    task of a spout has ids of its own (B14); elsewhere an identity is the same wherever it goes (B1), positions are of
    partitions, and state and journal move by slot. What a spout's number does to state: `rescaling`."""
    name = names[known_as]
    if was["kind"] != now["kind"]:
        yield Change(f"{name!r} is a {now['kind']} in place of a {was['kind']}")
        return
    copied = any(one["copies"] for part in (was, now) for one in part["reads"].values())
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
        harmless = (was["how"], now["how"]) == ("process", "journal")  # the same identities, written down from now on
        yield Change(f"{name!r} has {_method(now)} in place of {_method(was)}", harmless)
    elif was["state"] != now["state"]:
        yield _other_state(name, was, now)
    yield from _streams(name, was["streams"], now["streams"])
    keyed = "state" in (was["how"], now["how"]) or was["how"] == "journal"
    yield from _reads(name, _by_names(was["reads"], names), _by_names(now["reads"], names), keyed)


def has_own_ids(*parts: ComponentShape) -> bool:
    """Whether each task of a spout has message ids of its own, in one of these."""
    return any("ids" in one for one in parts)


def _again(
    left: Mapping[str, ComponentShape], after: Mapping[str, ComponentShape], names: Mapping[str, str]
) -> Iterator[Change]:
    """Those that keep state now, and of which an earlier run has left some."""
    for known_as, was in left.items():
        if known_as in after and after[known_as].get("kept"):
            name, now = names[known_as], after[known_as]
            yield Change(f"{name!r} goes on with the state that an earlier run has left", True)
            if was["state"] != now["state"]:
                yield _other_state(name, was, now)


def _other_state(name: str, was: ComponentShape, now: ComponentShape) -> Change:
    """The type of a state has changed: nothing, where what is kept is read as the new type, too."""
    text = f"the state of {name!r} is {_cut(now['state'])} in place of {_cut(was['state'])}"
    readable = was["state"] in now.get("older", ())
    return Change(text, readable, unreadable=was.get("kept", False) and not readable)


def _streams(name: str, was: Mapping[str, dict[str, str]], now: Mapping[str, dict[str, str]]) -> Iterator[Change]:
    for cls, fields in was.items():
        if cls in now:
            yield from _field_changes(cls, fields, now[cls])
        else:
            yield Change(f"{name!r} emits no {cls} any more")
    yield from (Change(f"{name!r} emits {cls} besides", True) for cls in now if cls not in was)


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
            yield Change(f"{name!r} reads {stream} no more")
        elif now[stream] != read:
            harmless = not keyed and not read["copies"] and not now[stream]["copies"]
            yield Change(
                f"{name!r} reads {stream} by {now[stream]['grouping']} in place of {read['grouping']}", harmless
            )
    yield from (Change(f"{name!r} reads {stream} besides", True) for stream in now if stream not in was)


def _by_names(reads: Mapping[str, Read], names: Mapping[str, str]) -> dict[str, Read]:
    """By the present names of the emitters."""
    said = {stream: stream.partition("[") for stream in reads}
    return {f"{names.get(said[stream][0], said[stream][0])}[{said[stream][2]}": read for stream, read in reads.items()}


def _read(kept: str) -> TopologyShape | None:
    try:
        return msgspec.json.decode(kept, type=_Kept).whole
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


class _Kept(msgspec.Struct):
    """A shape, as JSON has it: whatever is in it has the type that it should."""

    format: typing.Literal[1]
    components: dict[str, ComponentShape]
    left: dict[str, ComponentShape] = {}

    @property
    def whole(self) -> TopologyShape:
        return {"format": self.format, "components": self.components, "left": self.left}


def _fields(cls: type[Record]) -> dict[str, str]:
    return {name: schema(kind) for name, kind in field_types(cls).items()}


def _older(kind: Any) -> Iterator[str]:
    """The types whose values are decoded as this one: a record without one or more of its last fields, where these have
    defaults."""
    if not is_record(kind):
        return
    fields = msgspec.structs.fields(kind)
    texts = [f"{one.name}: {schema(one.type)}" for one in fields]  # as in `schema`, of which each is a beginning
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


def _cut(text: str) -> str:
    text = text.replace("Ellipsis", "...")
    return text if len(text) <= TYPE_MAX else f"{text[: TYPE_MAX - 1]}…"
