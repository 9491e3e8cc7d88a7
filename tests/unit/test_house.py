"""The rules of the house, as tests: who may import whom, who may ask for the time, how long a file may be.

Each rule says what to do when it is broken. Exceptions stand in a table beside their rule, each with its reason; an
exception that nothing needs any more is a mistake too. That the finders find is shown at the end, on bad snippets.
"""

import ast
import tomllib
from collections.abc import Iterable

import pytest
from house import (
    ALL_FOLDERS,
    PACKAGES,
    ROOT,
    SourceFile,
    circles,
    dotted_uses,
    files,
    functions,
    imports,
    own_modules,
    parsed,
    report,
    unneeded,
)

MAY_IMPORT = {
    "acker": set(),
    "topology": {"acker"},
    "spouts": {"acker", "topology"},
    "bolts": {"acker", "topology"},
    "bridge": {"acker", "topology", "spouts", "bolts"},
    "examples": {"acker", "topology", "spouts", "bolts", "bridge", "kedge"},
    "benchmarks": {"acker", "topology", "spouts", "bolts", "bridge", "examples", "kedge"},
    "kedge": {"topology", "spouts", "bolts"},  # their public names
}

UPWARDS: dict[tuple[str, str], str] = {}  # (file, imported name) → why it has to be

PURE = {
    "bisect",
    "collections",
    "hashlib",
    "itertools",
    "operator",
    "struct",
    "types",
    "typing",
    "msgspec",
    "xxhash",
    "acker",
}

# The declaring part of `topology`, and what it may not import: it does no I/O and starts nothing.
DECLARING = (
    *("companions", "components", "config", "errors", "functions", "graph"),
    *("groupings", "plan", "records", "signatures"),
    *(f"drawing.{name}" for name in ("as_mermaid", "as_svg", "as_text", "boxes", "layout", "model", "widths")),
)
RUNNING = {"asyncio", "multiprocessing", "os", "selectors", "socket", "sqlite3", "subprocess", "threading", "zmq"}

CHANGED_COPIES = ("rescale/move", "offline/dead_letters", "rescale/spout_tasks", "rescale/positions")
STORING = ("jsonlines", "postgres/table", "rows", "values")
MAY_USE_MSGSPEC = {
    "topology/runtime/state/key_values.py": "the collector need not visit a struct of each key",
    **{
        f"topology/runtime/state/{name}.py": "the collector need not visit a struct of each input"
        for name in ("known_input", "state_value")
    },
    **{f"topology/storage/{name}.py": "a changed copy of a value that is stored" for name in CHANGED_COPIES},
    "acker/identity.py": "one byte form of the seeds' parts, fixed by golden vectors",
    "acker/ledger.py": "an open tree is a struct that the garbage collector need not visit",
    "topology/cli/dead_letters.py": "a dead letter is shown without the class of its record",
    "topology/loading/settings.py": "the text of a --set becomes a value of the parameter's type",
    "topology/components.py": "messages: the cheapest typed struct there is",
    "topology/core/source.py": "part of each tuple",
    "topology/core/tuples.py": "tuples: the cheapest typed struct there is",
    "topology/groupings.py": "the byte form of a key that is a record",
    "topology/records.py": "records and their codecs",
    "topology/storage/directory/shape.py": "what an earlier run has noted is read by type",
    "topology/storage/encoding/json_values.py": "values that are stored, read without their classes",
    "topology/storage/values.py": "what is stored",
    **{
        f"topology/storage/{name}.py": "what is stored, as bytes"
        for name in (
            "encoding/packing",
            "sqlite/store",
            "sqlite/header",
            "encoding/entries",
            "encoding/log_records",
            "encoding/prepared",
            "encoding/state",
        )
    },
    "spouts/payload/decoder.py": "payloads are decoded by type",
    "spouts/payload/object_form.py": "records from objects, by a twin of each class",
    "topology/clients/registry/objects.py": "payloads are decoded by type, and bodies are JSON objects",
    "bolts/sinks/publishing/bodies.py": "bodies are JSON objects",
    "topology/testing/sources/suite.py": "payloads of the suite",
    "topology/runtime/state/value.py": "state is kept as bytes, and decoded by its type",
    "topology/runtime/state/dedup.py": "a remembered input is a struct that the garbage collector need not visit",
    "topology/runtime/telemetry/metrics.py": "a snapshot crosses from a worker to its supervisor",
    "topology/runtime/supervisor/queries.py": "a status comes from a worker",
    "topology/runtime/control/completion.py": "a status crosses from a worker to its supervisor",
    "topology/runtime/run/command_socket.py": "messages between a command and a run",
    "topology/runtime/control/messages.py": "messages between processes",
    "topology/runtime/control/frontiers.py": "a part of such messages",
    "topology/storage/dead_questions.py": "a question about dead letters, and its answer, cross between processes",
    "topology/runtime/dead_letters/letter.py": "changed copies of stored values",
    "topology/runtime/links/protocol.py": "frames are structs",
    "topology/runtime/links/columns.py": "the parts of a frame's body are structs",
    "topology/runtime/links/codec.py": "the byte form of frames",
    "topology/runtime/process/orders.py": "a status becomes bytes on the control socket",
    "topology/exact_types.py": "records checked by their byte form",
    "bridge/arrow/schema.py": "columns become records, checked by their types",
    **{f"bolts/sinks/{name}.py": "where bytes are stored" for name in STORING},
}

IS_SPARK_ALONE = {"benchmarks/spark_alone.py", "benchmarks/through_spark.py"}  # what the bridge is compared with
MAY_USE_ZMQ = {"topology/runtime/links/zeromq.py", "topology/runtime/links/zap.py"}

UNPICKLERS = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve"}

# F27, and virtual time: clocks and chance are passed in. What asks for them itself, and why it may.
CLOCKS = {
    *(f"time.{name}" for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")),
    *(f"time.{name}" for name in ("sleep", "localtime()", "gmtime()", "ctime()", "strftime")),
    *(f"datetime.{name}" for name in ("datetime.now", "datetime.utcnow", "datetime.today", "date.today")),
}
CHANCE = {"random.Random()", "random.SystemRandom", "os.urandom", "uuid.uuid1", "uuid.uuid4"}
MAY_ASK = {
    ("topology/runtime/process/main.py", "time.monotonic"): "control threads beat while there is no loop yet to ask",
    (
        "topology/runtime/os_process/orphan_guard.py",
        "time.monotonic",
    ): "a script of its own, without a loop: passed in from its end",
    ("topology/runtime/clock.py", "datetime.datetime.now"): "the one place that asks for the wall clock",
    (
        "topology/storage/directory/state_dir.py",
        "secrets.token_bytes",
    ): "the key for outsiders' ids must not be guessable (S19)",
    ("topology/runtime/run/startup.py", "secrets.token_bytes"): "the same, where a run opens its state directory",
    (
        "topology/filesystem/safe_files.py",
        "secrets.token_hex",
    ): "the name of a file in a shared folder must not be guessable (S26)",
    ("topology/cli/run_client.py", "time.monotonic"): "commands have no loop to ask how long a server takes",
    ("topology/runtime/run/lifecycle.py", "secrets.randbits"): "the seed of a run that was given none",
}

LINES_MAX = 500
FUNCTION_LINES_MAX = 60
LONGER: dict[str, str] = {}  # path or path:function → why it is clearer so


# -- who imports whom


@pytest.mark.parametrize("folder", [*MAY_IMPORT])
def test_imports_point_one_way(folder: str) -> None:
    allowed = MAY_IMPORT[folder] | {folder}
    found = [(file.path, one) for file in files(folder) for one in imports(file.tree)]
    used: set[object] = {(path, one.target) for path, one in found}
    broken = [
        f"{path}:{one.line} imports {one.target}"
        for path, one in found
        if (start := one.target.split(".")[0]) in {*ALL_FOLDERS, "kedge"} - allowed or not start
        if (path, one.target) not in UPWARDS
    ]
    report(
        [*broken, *unneeded({entry for entry in UPWARDS if entry[0].startswith(folder)}, used)],
        f"{folder} may import {', '.join(sorted(allowed))}, and by full names; move what is shared downwards:",
    )


def test_no_file_imports_itself_through_others() -> None:
    known = {file.module for file in files(*ALL_FOLDERS)}
    graph = {file.module: {target for target, _ in own_modules(file.tree, known)} for file in files(*ALL_FOLDERS)}
    report(
        (" → ".join(circle) for circle in circles(graph)), "circles of imports; move what both need into a third file:"
    )


def test_the_acker_is_pure() -> None:
    report(
        (
            f"{file.path}:{one.line} imports {one.target}"
            for file in files("acker")
            for one in imports(file.tree)
            if one.target.split(".")[0] not in PURE
        ),
        "acker/ does no I/O and knows no loop; pass in what it needs as a value:",
    )


def test_the_declaring_part_of_topology_starts_nothing() -> None:
    report(
        (
            f"{file.path}:{one.line} imports {one.target}"
            for file in files("topology")
            if file.module.removeprefix("topology.") in DECLARING
            for one in imports(file.tree)
            if not one.deferred
            and (one.target.split(".")[0] in RUNNING or one.target.startswith(("topology.runtime", "topology.cli")))
        ),
        "the declaring part does no I/O; what needs it belongs in topology/runtime:",
    )


def test_only_the_bridge_imports_pyspark() -> None:
    outside = [file for file in files(*{*ALL_FOLDERS} - {"bridge", "tests"}) if file.path not in IS_SPARK_ALONE]
    report(importers(outside, {"pyspark"}), "pyspark is an extra; only bridge/ may need it:")


def test_only_the_transport_and_its_doorman_import_zmq() -> None:
    inside = [file for file in files(*PACKAGES, "examples") if file.path not in MAY_USE_ZMQ]
    report(importers(inside, {"zmq"}), "sockets are behind the links; use what topology/runtime promises of them:")


def test_msgspec_stays_where_bytes_are_made() -> None:
    inside = files(*PACKAGES, "kedge")
    used: set[object] = {file.path for file in inside if importers([file], {"msgspec"})}
    report(
        [
            *importers((file for file in inside if file.path not in MAY_USE_MSGSPEC), {"msgspec"}),
            *unneeded(MAY_USE_MSGSPEC, used),
        ],
        "msgspec is for records, tuples, frames and stored bytes; use a dataclass, or add the file with its reason:",
    )


def test_nothing_is_ever_unpickled() -> None:
    report(
        importers(files(*ALL_FOLDERS, "kedge"), UNPICKLERS),
        "bytes from outside must not become code; decode them by type, with topology.records.decoder:",
    )


def importers(where: Iterable[SourceFile], packages: set[str]) -> list[str]:
    """The places that import one of these packages."""
    return [
        f"{file.path}:{one.line} imports {one.target}"
        for file in where
        for one in imports(file.tree)
        if one.target.split(".")[0] in packages
    ]


# -- clocks and chance


def test_clocks_and_chance_are_passed_in() -> None:
    """F27: a wall clock steps, and virtual time drives only what it is asked through."""
    used: set[object] = set()
    broken = []
    for file in files("acker", "topology"):
        for name, line in asked(file):
            used.add((file.path, name.removesuffix("()")))
            if (file.path, name.removesuffix("()")) not in MAY_ASK:
                broken.append(f"{file.path}:{line} uses {name}")
    report(
        [*broken, *unneeded(MAY_ASK, used)],
        "take the time from the loop or the clock you are given, and a Random with a seed, as an argument:",
    )


def asked(file: SourceFile) -> list[tuple[str, int]]:
    """Where a file asks for the time or for chance itself."""
    return [
        (name, line)
        for name, line in dotted_uses(file.tree)
        if name in CLOCKS
        or name.removesuffix("()") in CLOCKS
        or name in CHANCE
        or name.removesuffix("()") in CHANCE
        or name.startswith("secrets.")
        or (name.startswith("random.") and not name.startswith("random.Random"))
    ]


# -- what a file looks like


def test_every_file_opens_with_what_it_is_for() -> None:
    report(
        (file.path for file in files(*ALL_FOLDERS, "kedge") if not documented(file)),
        "open the file with a docstring: what it is for, and what it must not know:",
    )


def documented(file: SourceFile) -> bool:
    """Whether it opens with a docstring that says something."""
    return bool((ast.get_docstring(file.tree) or "").strip())


def test_no_file_is_too_long() -> None:
    lengths = {file.path: file.text.count("\n") for file in files(*ALL_FOLDERS, "kedge")}
    report(
        (f"{path} has {length} lines" for path, length in lengths.items() if length > LINES_MAX and path not in LONGER),
        f"one file holds one idea; split what is over {LINES_MAX} lines, or add it to LONGER with the reason:",
    )


def test_no_function_is_too_long() -> None:
    report(
        (
            f"{file.path}:{line} {name} has {length} lines"
            for file in files(*ALL_FOLDERS, "kedge")
            for name, line, length in functions(file.tree)
            if length > FUNCTION_LINES_MAX and f"{file.path}:{name}" not in LONGER
        ),
        f"a function fits a screen; split what is over {FUNCTION_LINES_MAX} lines, or add it to LONGER:",
    )


# -- what is installed


def test_the_wheel_has_all_packages_and_no_tests() -> None:
    with open(ROOT / "pyproject.toml", "rb") as settings:
        listed = set(tomllib.load(settings)["tool"]["setuptools"]["packages"])
    there = {file.module.rpartition(".")[0] for file in files(*PACKAGES) if not file.path.endswith("__init__.py")}
    there |= {file.module for file in files(*PACKAGES) if file.path.endswith("__init__.py")}
    there |= {"kedge_examples", "kedge-stubs"}  # examples/ under a name of ours; types of kedge.py
    report(there - listed, "list these packages in pyproject.toml, or they are not installed:")
    report(listed - there, "pyproject.toml lists packages that are not there, or are never to be installed:")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_is_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file(), f"add an empty {package}/py.typed: type checkers ignore it without"
    assert (ROOT / package / "__init__.py").is_file(), f"add {package}/__init__.py"


# -- the finders find


def source(text: str, path: str = "topology/snippet.py") -> SourceFile:
    return SourceFile(path, text)


def test_imports_are_found_wherever_they_stand() -> None:
    text = (
        "import zmq.asyncio as z\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import spouts\n"
        "def f():\n    from bolts import Print\ntry:\n    from . import x\nexcept ImportError:\n    pass\n"
    )
    assert [(one.target, one.deferred) for one in imports(parsed(text))] == [
        ("zmq.asyncio", False),
        ("typing.TYPE_CHECKING", False),
        ("spouts", True),
        ("bolts.Print", True),
        ("..x", False),
    ]
    assert importers([source(text)], {"zmq"}) == ["topology/snippet.py:1 imports zmq.asyncio"]


def test_a_name_is_counted_for_the_module_that_it_comes_from() -> None:
    tree = parsed("from topology import Record\nfrom topology.graph import Topology\nimport topology.plan\nimport os\n")
    known = {"topology", "topology.graph", "topology.plan"}
    assert [target for target, _ in own_modules(tree, known)] == ["topology", "topology.graph", "topology.plan"]


def test_circles_are_found_however_long() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c", "a"]]
    assert circles({"a": {"a"}}) == [["a", "a"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import time\ntime.time()", "time.time()"),
        ("import time as t\nlater(t.monotonic)", "time.monotonic"),
        ("from time import time as now\nnow()", "time.time()"),
        ("from datetime import datetime, UTC\nx = datetime.now(UTC)", "datetime.datetime.now"),
        ("import datetime\nx = f(datetime.date.today().year)", "datetime.date.today()"),
        ("import random\nrandom.shuffle(x)", "random.shuffle"),
        ("from random import choice\nchoice(x)", "random.choice"),
        ("from random import Random\nRandom()", "random.Random()"),
        ("import secrets\nsecrets.token_hex(8)", "secrets.token_hex"),
        ("import os\nclass A:\n    key = os.urandom(8)", "os.urandom"),
    ],
)
def test_asking_for_the_time_or_for_chance_is_found_under_any_name(text: str, name: str) -> None:
    assert [found for found, _ in asked(source(text))] == [name]


def test_what_was_passed_in_may_be_asked() -> None:
    text = (
        "from random import Random\nfrom datetime import datetime\nimport time\n"
        "def f(random: Random, clock, at: datetime):\n    random.shuffle([])\n    clock.monotonic()\n"
        "    Random(7)\n    time.struct_time\n"
    )
    assert asked(source(text)) == []


def test_the_length_of_a_function_is_found() -> None:
    text = "class A:\n    async def f(self):\n" + "        pass\n" * 61
    assert list(functions(parsed(text))) == [("f", 2, 62)]


@pytest.mark.parametrize(
    ("text", "good"), [('"""What for."""\n', True), ("import os\n", False), ('""""""\nimport os', False)]
)
def test_a_docstring_at_the_head_is_told_from_none(text: str, good: bool) -> None:
    assert documented(source(text)) == good


def test_an_exception_that_nothing_needs_is_a_mistake() -> None:
    table = {"kedge.py": "used", "pyproject.toml:x": "not used", "not/there.py": "not written yet"}
    assert unneeded(table, {"kedge.py"}) == ["pyproject.toml:x: not needed any more, remove it"]
