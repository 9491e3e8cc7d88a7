"""The last lines of a door, held by the imports of its room: what the room, and each room in it, imports nothing of.

    Imports nothing of: topology.runtime.process, zmq
    Only zap, zeromq import: zmq

A name stands for itself and all below it. A room may import what is inside it, unless the line names the room itself:
then its files do not import each other. `Only` names files and rooms of the room. Deferred imports count too. A door's
"Must not know" is for reviewers: imports cannot say all of it.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from house import ALL_FOLDERS, PACKAGES, Import, SourceFile, files, imports, report, unneeded

NOTHING_OF = re.compile(r"Imports nothing of: ([\w.]+(?:,\s+[\w.]+)*)$")
ONLY = re.compile(r"Only ([\w.]+(?:, [\w.]+)*) imports?: ([\w.]+(?:,\s+[\w.]+)*)$")

# Doors without such a line, and why.
WITHOUT = {
    "topology/testing/__init__.py": "its docstring begins a page of the reference; that of `topology` holds for it",
}


class Line(NamedTuple):
    """A line of a door. `only`: the modules of the room that may import these names; none of them if it is empty."""

    room: str  # as a module
    only: tuple[str, ...]
    names: tuple[str, ...]


def lines_of(room: str, docstring: str) -> Iterator[Line]:
    """The checked lines of a door. They are its last paragraph, and may be folded, with an indent."""
    last = re.split(r"\n\s*\n", docstring.strip())[-1]
    for text in re.split(r"\n(?! )", last):
        text = " ".join(text.split())
        if found := NOTHING_OF.match(text):
            yield Line(room, (), tuple(found[1].split(", ")))
        elif found := ONLY.match(text):
            yield Line(room, tuple(f"{room}.{name}" for name in found[1].split(", ")), tuple(found[2].split(", ")))


@cache
def doors() -> Mapping[str, tuple[Line, ...]]:
    """Path of each door → its checked lines."""
    return {
        file.path: tuple(lines_of(file.module, ast.get_docstring(file.tree) or ""))
        for file in files(*PACKAGES)
        if file.path.endswith("/__init__.py")
    }


@cache
def imported(file: SourceFile) -> tuple[Import, ...]:
    return tuple(imports(file.tree))


def within(module: str, name: str) -> bool:
    """Whether a module, or a name in it, is this one or below it."""
    return f"{module}.".startswith(f"{name}.")


def breaks(line: Line, file: SourceFile) -> Iterator[tuple[str, int]]:
    """The imports of a file that a line of a door forbids."""
    if not within(file.module, line.room) or any(within(file.module, name) for name in line.only):
        return
    for one in imported(file):
        for name in line.names:
            if not within(one.target, name):
                continue
            if name == line.room:  # its files are apart; the door itself may import them
                its_own = within(one.target, file.module) or file.module == line.room
            elif within(name, line.room):  # a part of it
                its_own = within(file.module, name)
            else:
                its_own = within(one.target, line.room)
            if not its_own:
                yield one.target, one.line


def test_a_room_imports_nothing_of_what_its_door_names() -> None:
    report(
        (
            f"{file.path}:{at} imports {target}, which {path} rules out"
            for path, lines in doors().items()
            for line in lines
            for file in files(path.split("/")[0])
            for target, at in breaks(line, file)
        ),
        "pass in what the room needs, or move what both need below it; the door is changed last:",
    )


def test_each_door_ends_with_what_its_room_imports_nothing_of() -> None:
    used: set[object] = {path for path, lines in doors().items() if not lines}
    report(
        [*(str(path) for path in used if path not in WITHOUT), *unneeded(WITHOUT, used)],
        'end this docstring with a line "Imports nothing of: ...", which a test holds:',
    )


def test_what_a_door_names_is_there() -> None:
    """Else a room that was renamed would be imported without a word."""
    known = {file.module for file in files(*ALL_FOLDERS)} | sys.stdlib_module_names
    known |= {one.target.split(".")[0] for file in files(*ALL_FOLDERS) for one in imported(file)} - {*PACKAGES}
    report(
        (
            f"{path}: {name}"
            for path, lines in doors().items()
            for line in lines
            for name in (*line.only, *line.names)
            if name not in known
        ),
        "this is no module:",
    )


def test_who_alone_may_import_something_does() -> None:
    report(
        (
            f"{path}: {module} imports nothing of {', '.join(line.names)}"
            for path, lines in doors().items()
            for line in lines
            for module in line.only
            if not any(
                within(one.target, name)
                for file in files(path.split("/")[0])
                if within(file.module, module)
                for one in imported(file)
                for name in line.names
            )
        ),
        "remove it from the line of this door:",
    )


# -- the finder finds


def test_lines_of_a_door_are_read_and_others_are_not() -> None:
    door = "For x. Must not know y.\n\nImports nothing of: a.b, zmq,\n  os\nOnly c, d import: e\n"
    assert [*lines_of("room", door)] == [
        Line("room", (), ("a.b", "zmq", "os")),
        Line("room", ("room.c", "room.d"), ("e",)),
    ]
    assert [*lines_of("room", "For x. Imports nothing of importance.")] == []


def test_an_import_that_a_door_rules_out_is_found_wherever_it_is_in_the_room() -> None:
    def found(line: Line, path: str, text: str) -> list[str]:
        return [target for target, _ in breaks(line, SourceFile(path, text))]

    nothing = Line("a.b", (), ("a", "zmq"))
    text = "import zmq.asyncio\nimport zmqs\nfrom a.b import c\ndef f():\n    from a import x\n"
    assert found(nothing, "a/b/one.py", text) == ["zmq.asyncio", "a.x"]
    assert found(nothing, "a/b/c/two.py", text) == ["zmq.asyncio", "a.x"]
    assert found(nothing, "a/bb/one.py", text) == []
    only = Line("a.b", ("a.b.one",), ("zmq",))
    assert found(only, "a/b/one.py", text) == []
    assert found(only, "a/b/two.py", text) == ["zmq.asyncio"]
    child = Line("a", (), ("a.b",))
    assert found(child, "a/b/one.py", text) == []
    assert found(child, "a/one.py", text) == ["a.b.c"]
    apart = Line("a.b", (), ("a.b",))
    assert found(apart, "a/b/one.py", "from a.b.one import x\nfrom a.b.two import y\n") == ["a.b.two.y"]
