"""The rules of the rooms, as tests: how large a folder and a class may be, what its door says, and who may know whom.

A room is a package; its door is the docstring of its `__init__`. ARCHITECTURE.md has a table of all rooms.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from house import PACKAGES, SourceFile, circles, files, own_modules, parsed, report, unneeded

MODULES_MAX = 20  # in one folder, beside its `__init__`
ATTRIBUTES_MAX = 25  # of one class
METHODS_MAX = 30
PARAMETERS_MAX = 12  # of one `__init__`

# Classes with one name and two meanings; each meaning is known by its room.
SHARED_NAMES = {
    "Stop": "a message of the command socket, whose name is its tag; and a step of a test's script, which is public",
}

# Classes over a limit: "path:Class" → why it is clearer so.
LARGER: dict[str, str] = {}


@cache
def rooms() -> dict[str, tuple[SourceFile, ...]]:
    """Each folder of the packages, with its files."""
    found: dict[str, list[SourceFile]] = defaultdict(list)
    for file in files(*PACKAGES):
        found[file.path.rpartition("/")[0]].append(file)
    return {folder: tuple(inside) for folder, inside in found.items()}


def test_a_room_holds_as_many_modules_as_one_can_look_over() -> None:
    report(
        (
            f"{folder} has {count} modules"
            for folder, inside in rooms().items()
            if (count := sum(not file.path.endswith("/__init__.py") for file in inside)) > MODULES_MAX
        ),
        f"a folder with over {MODULES_MAX} modules is a hall; make rooms of it:",
    )


def test_the_door_of_each_room_says_what_it_is_for_and_what_it_must_not_know() -> None:
    report(
        (
            file.path
            for folder in rooms()
            for file in files(folder.split("/")[0])
            if file.path == f"{folder}/__init__.py"
            if "must not" not in re.sub(r"\s+", " ", ast.get_docstring(file.tree) or "").lower()
        ),
        'say in the docstring of this `__init__` what the room is for, and what it must not know ("Must not know …"):',
    )


def test_every_folder_with_code_is_a_room_with_a_door() -> None:
    report(
        (folder for folder, inside in rooms().items() if f"{folder}/__init__.py" not in {file.path for file in inside}),
        "add an `__init__.py` with a docstring:",
    )


def test_siblings_import_each_other_one_way() -> None:
    """For each room: its files and rooms are a graph without circles, whichever file in a room it is that imports."""
    report(
        (f"in {parent}: {' → '.join(circle)}" for parent, graph in siblings().items() for circle in circles(graph)),
        "rooms that import each other; move what both need below them:",
    )


def siblings() -> dict[str, dict[str, set[str]]]:
    """Parent → child → the other children that something in it imports."""
    known = {file.module for file in files(*PACKAGES)}
    graphs: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file in files(*PACKAGES):
        for target, _ in own_modules(file.tree, known):
            if (split := parted(file.module, target)) is not None:
                parent, one, other = split
                graphs[parent][one].add(other)
    return graphs


def parted(module: str, target: str) -> tuple[str, str, str] | None:
    """The room that both are in, and the child of it that holds each; None if one is in the other or none is shared."""
    here, there = module.split("."), target.split(".")
    shared = 0
    while shared < min(len(here), len(there)) and here[shared] == there[shared]:
        shared += 1
    if not shared or shared in (len(here), len(there)):
        return None
    return ".".join(here[:shared]), here[shared], there[shared]


def test_a_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file in files(*PACKAGES):
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{file.path}:{node.lineno}")
    twice = {name: at for name, at in places.items() if len(at) > 1}
    report(
        [
            *(f"{name}: {', '.join(at)}" for name, at in twice.items() if name not in SHARED_NAMES),
            *(
                f"{name}: one class alone has this name; remove it from SHARED_NAMES"
                for name in {*SHARED_NAMES} - {*twice}
            ),
        ],
        "one name, two meanings; name each by what it is:",
    )


def test_no_class_is_a_hall() -> None:
    used: set[object] = set()
    broken = []
    for file in files(*PACKAGES):
        for name, line, fault in too_large(file.tree):
            used.add(f"{file.path}:{name}")
            if f"{file.path}:{name}" not in LARGER:
                broken.append(f"{file.path}:{line} {name} has {fault}")
    report(
        [*broken, *unneeded(LARGER, used)], "divide it by what changes together, or add it to LARGER with the reason:"
    )


def too_large(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Each class over a limit: its name, line, and by how much."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        set_here = {
            target.attr
            for method in methods
            for part in ast.walk(method)
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)
            for target in [part]
            if isinstance(target.value, ast.Name) and target.value.id == "self"
        }
        defined = {one.name for one in methods if not one.decorator_list}
        if len(set_here) > ATTRIBUTES_MAX:
            yield node.name, node.lineno, f"{len(set_here)} attributes, over {ATTRIBUTES_MAX}"
        if len(defined) > METHODS_MAX:
            yield node.name, node.lineno, f"{len(defined)} methods, over {METHODS_MAX}"
        for method in methods:
            if method.name == "__init__":
                count = len([*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]) - 1
                if count > PARAMETERS_MAX:
                    yield node.name, node.lineno, f"{count} parameters of __init__, over {PARAMETERS_MAX}"


# -- the finders find


def test_the_rooms_that_two_modules_share_are_found() -> None:
    assert parted("topology.runtime.links.peer", "topology.runtime.tasks.outbox") == (
        "topology.runtime",
        "links",
        "tasks",
    )
    assert parted("topology.plan", "topology.graph") == ("topology", "plan", "graph")
    assert parted("topology.runtime", "topology.runtime.clock") is None
    assert parted("topology.graph", "acker.ledger") is None


def test_a_class_over_each_limit_is_found() -> None:
    attributes = "\n".join(f"        self.a{n} = 0" for n in range(ATTRIBUTES_MAX + 1))
    assert [fault for *_, fault in too_large(parsed(f"class A:\n    def __init__(self):\n{attributes}\n"))] == [
        f"{ATTRIBUTES_MAX + 1} attributes, over {ATTRIBUTES_MAX}"
    ]
    methods = "\n".join(f"    def m{n}(self): ..." for n in range(METHODS_MAX + 1))
    assert [fault for *_, fault in too_large(parsed(f"class A:\n{methods}\n"))] == [
        f"{METHODS_MAX + 1} methods, over {METHODS_MAX}"
    ]
    parameters = ", ".join(f"p{n}" for n in range(PARAMETERS_MAX + 1))
    assert [fault for *_, fault in too_large(parsed(f"class A:\n    def __init__(self, {parameters}): ...\n"))] == [
        f"{PARAMETERS_MAX + 1} parameters of __init__, over {PARAMETERS_MAX}"
    ]
