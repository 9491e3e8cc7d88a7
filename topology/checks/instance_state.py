"""State that a bolt keeps in its attributes, found in its source; `kedge check` warns about it (B4).

A replay changes such state a second time, and later outputs differ: an alert counts a failure twice, and pages under
another identity. This file must not know graphs beyond the declaration of one bolt; it runs nothing of it.

The rule, chosen for few false alarms, has two conditions. First, the bolt emits something by `process`. `execute` is
exempt because its purpose is to hold tuples back; so is a sink, whose state changes no tuple. Second, a method on the
path of a record changes an attribute that is read there too.

The rule ignores a counter that is only incremented, an attribute set up once under `if self.x is None`, an attribute
with `cache` in its name, and all code whose source is missing.
"""

import ast
import inspect
import textwrap
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from typing import Final, TypeAlias

from topology.components import Bolt
from topology.graph import Declared

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

CONTAINERS: Final = (list, dict, set, bytearray, deque, Counter, OrderedDict, defaultdict)
MAKERS: Final = frozenset(container.__name__ for container in CONTAINERS)
CHANGES: Final = frozenset([
    "add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert", "pop", "popitem", "popleft",
    "remove", "reverse", "rotate", "setdefault", "sort", "subtract", "update",
])  # fmt: skip
NOT_THE_USERS: Final = ("topology", "builtins", "typing")  # packages of base classes that keep nothing
ASKS_TOO: Final = frozenset(["pop", "popitem", "popleft", "setdefault"])  # changes whose result is a reading


def kept(declared: Declared) -> list[str]:
    """Return the attributes in which this bolt keeps state from record to record, in alphabetical order."""
    if not isinstance(declared.prototype, Bolt) or not declared.streams:
        return []
    own = classes(declared.prototype)
    held = [vars(declared.prototype), *map(vars, own)]
    containers = {name for values in held for name, value in values.items() if isinstance(value, CONTAINERS)}
    for base in own:
        for name in ("__init__", "open"):
            containers.update(*map(_containers_made, _source(base, name)))
    uses = _Uses(containers)
    for method in reached(own, "process"):
        uses.of(method)
    return sorted(name for name in uses.changed & uses.read if "cache" not in name.lower())


def classes(component: object) -> list[type]:
    """Return its class and base classes, without those that keep nothing and emit nothing."""
    return [base for base in type(component).__mro__ if base.__module__.partition(".")[0] not in NOT_THE_USERS]


def _source(base: type, name: str) -> list[Function]:
    """Return the source of a method that this class defines; nothing if it defines none or the source is missing."""
    function = vars(base).get(name)
    if not inspect.isfunction(function):
        return []
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return []  # typed in at a prompt, or cut out of a longer line
    return [node for node in tree.body if isinstance(node, Function)]


def reached(own: list[type], name: str) -> Iterator[Function]:
    """Yield the source of a method, and of the methods that it calls on `self`, directly or not, as far as there is
    source."""
    waiting, met = [name], {name}
    while waiting:
        method = waiting.pop()
        found = next((_source(base, method) for base in own if method in vars(base)), [])
        yield from found
        for node in (node for function in found for node in ast.walk(function)):
            called = _of_self(node)
            if called and called not in met:
                met.add(called)
                waiting.append(called)


def _containers_made(method: Function) -> set[str]:
    """Return each x of `self.x = []`, `self.x: dict[…] = {}`, `self.x = deque(…)`."""
    found = set()
    for node in ast.walk(method):
        if isinstance(node, ast.Assign | ast.AnnAssign) and _makes_container(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name for target in targets if (name := _of_self(target))}
    return found


def _makes_container(value: ast.AST | None) -> bool:
    if isinstance(value, ast.Call):
        function = value.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        return name in MAKERS
    return isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)


def _of_self(node: ast.AST) -> str | None:
    """Return the x of `self.x`, or None."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return node.attr
    return None


class _Uses(ast.NodeVisitor):
    """The attributes that methods change by data of a record, and those that they read."""

    def __init__(self, containers: set[str]) -> None:
        self.containers = containers
        self.changed: set[str] = set()
        self.read: set[str] = set()
        self.brought: set[str] = set()  # local names that hold data of the record

    def of(self, method: Function) -> None:
        self.brought = {parameter.arg for parameter in (*method.args.posonlyargs, *method.args.args)} - {"self"}
        self.visit(method)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load) and (name := _of_self(node)):
            self.read.add(name)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = _of_self(function.value) if isinstance(function, ast.Attribute) else None
        if name in self.containers and isinstance(function, ast.Attribute) and function.attr in CHANGES:
            assert name is not None
            self.changed.add(name)
            if function.attr in ASKS_TOO:
                self.read.add(name)
            for argument in (*node.args, *node.keywords):
                self.visit(argument)
        else:
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assigned(target, node.value)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assigned(node.target, node.value)
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if name := _of_self(node.target):
            self.changed.add(name)
        else:
            self._assigned(node.target, node.value)
        self.visit(node.value)

    def visit_For(self, node: ast.For) -> None:
        self._assigned(node.target, node.iter)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._assigned(target, target)

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        """Record the changes by `target = value`: an item of a container, an attribute, or a local name."""
        if isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                self._assigned(element, value)
        elif isinstance(target, ast.Subscript):
            if (name := _of_self(target.value)) in self.containers and name is not None:
                self.changed.add(name)
            self.visit(target.slice)
        elif name := _of_self(target):
            if self._brings(value) or any(_of_self(node) == name for node in ast.walk(value)):
                self.changed.add(name)
        elif isinstance(target, ast.Name) and self._brings(value):
            self.brought.add(target.id)

    def _brings(self, value: ast.expr) -> bool:
        return any(isinstance(node, ast.Name) and node.id in self.brought for node in ast.walk(value))
