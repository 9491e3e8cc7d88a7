"""The catalogue of errors: each error of ours has a code, each code is used, at one place, and the docs explain it."""

import ast
import importlib.util
import re
import tomllib
from collections.abc import Iterator

import pytest
from house import ROOT, SourceFile, files

from topology.codes import (
    command_line,
    comparison,
    connectors,
    declarations,
    runtime,
    savepoints,
    settings,
    startup,
    tuples,
)
from topology.codes.catalogue import CODES, GROUPS
from topology.codes.code import Code
from topology.codes.command_line import FILE_NOT_FOUND
from topology.codes.declarations import DUPLICATE_COMPONENT_NAME
from topology.errors import ConfigurationError, DeclarationError, Mistake, Problem, Reject
from topology.loading.load import OF_EXTRAS

CODE = re.compile(r"K[1-9]\d\d")
CONSTANTS = {  # constant → its code
    name: value.name
    for module in (command_line, comparison, connectors, declarations, runtime, savepoints, settings, startup, tuples)
    for name, value in vars(module).items()
    if isinstance(value, Code)
}
ERRORS = {
    *("KedgeError", "ConfigurationError", "StartError", "WorkerError", "TupleStateError", "EmitError", "RecordError"),
    *("Mistake", "Problem"),
}
PRODUCT = ("acker", "topology", "spouts", "bolts", "bridge", "kedge")

# Codes that more than one function uses → why.
SHARED = {
    "K310": "a file can't be read: the one that is followed, or one of a folder",
    "K535": "the writer of a sink that stores batches, and the sender of one that makes requests",
    "K546": "a store is away, or the receiver of a sink that makes requests",
    "K416": "a source of one file, and a source of many, each with its own list",
    "K905": "a server is away at the start, and later, when the log says so",
    "K478": "what is waited for at the start; and a replacement that has waited for it spends no restart",
    "K104": "a number of workers is that of an option, or of an argument of topology.run()",
    "K211": "a cycle is found by validation, or by Python before it, where a handle is used that is not there yet",
    "K612": "the runtime refuses a second ack; the conformance suite of sinks, and Spark's driver, do in its place",
    "K142": "kedge new and kedge demo --keep find something there, at the look or at the moment of making it",
    "K143": "kedge new and kedge demo --keep make a folder, each in its own way",
    "K533": "a part of the runtime dies in a worker, in a run of one process, or in the supervisor: three ways to tell",
    "K521": "a source has raised here, or in a worker, whose word is taken for it",
    "K531": "the supervisor, and the test kit's run whose workers crash, end by one rule",
    "K432": "a file has fewer commits than are known of, or was prepared for an earlier checkpoint than is decided",
    "K438": "a store is a plain file, and so is the file of decisions",
    "K439": "a store is given up, or a log",
    "K436": "a store has no room as it is opened, and a worker that could not start for that is waited for",
    "K803": "a checkpoint is not there when it is looked up, or is gone when it is deleted",
    "K804": "a checkpoint can't be kept: a worker, the supervisor, the disk or the command line finds out",
    "K421": "there is no place for a socket, and a worker that could not start for that is waited for",
    "K422": "no file can be opened, or too few, and a worker that could not start for that is waited for",
    "K424": "a socket can't be bound, and a worker that could not start for that is waited for",
    "K468": "the system refuses a thread or a process, and a worker that could not start for that is waited for",
    "K537": "a store, and a worker's log, say it of their own files",
    "K572": "a sink's file is damaged: the sink says it, its worker does not die of it, and the run ends at once",
    "K606": "`process` returns what can't be used, in the loop or in a thread",
    "K408": "a worker that could not start is told of at once, and again where it was the last one that may",
}


def product() -> list[SourceFile]:
    return [file for file in files(*PRODUCT) if not file.path.startswith("topology/codes/")]


def errors_without_a_code(file: SourceFile) -> Iterator[str]:
    """The places that make an error of ours and name no code; one that is handed on is named."""
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in ERRORS:
            continue
        given = [word.value for word in node.keywords if word.arg == "code"]
        if node.func.id == "Problem":
            given = node.args[:1]
        if not given or isinstance(given[0], ast.Constant):
            yield f"{file.path}:{node.lineno} {ast.unparse(node)[:80]}"


def uses(file: SourceFile) -> Iterator[tuple[str, str]]:
    """Code → the function that uses it, or the file's own level; an import is no use."""

    def within(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.Name) and node.id in CONSTANTS:
            yield CONSTANTS[node.id], f"{file.path}:{function}"
        for child in ast.iter_child_nodes(node):
            yield from within(child, function)

    return within(file.tree, "")


def used_at() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for file in (*product(), *files("examples")):  # `kedge demo` is one of them
        for code, place in uses(file):
            found.setdefault(code, set()).add(place)
    return found


def test_every_error_that_we_make_names_its_code() -> None:
    assert [place for file in product() for place in errors_without_a_code(file)] == []


def test_every_code_is_used_and_there_is_none_besides() -> None:
    assert used_at().keys() | {"K200"} == CODES.keys()  # K200 is in topology/errors.py: the base of all mistakes


def test_each_code_is_used_at_one_place_so_that_it_says_one_thing() -> None:
    several = {code: sorted(places) for code, places in used_at().items() if len(places) > 1}
    assert {code: places for code, places in several.items() if code not in SHARED} == {}
    assert SHARED.keys() - several.keys() == set(), "these are used at one place by now"


def test_the_finders_find() -> None:
    file = SourceFile(
        "topology/snippet.py",
        "from topology.codes.command_line import INVALID_COMMAND_LINE\n"
        "raise StartError('no')\nraise StartError('no', code=None)\n"
        "raise StartError('no', code=INVALID_RUN_TIME)\nraise Reject('no')\nProblem('text')\n"
        "def f():\n    log(INVALID_STATE_DIR)\n",
    )
    assert [place.partition(" ")[0] for place in errors_without_a_code(file)] == [
        "topology/snippet.py:2",
        "topology/snippet.py:3",
        "topology/snippet.py:6",
    ]
    assert [*uses(file)] == [("K102", "topology/snippet.py:"), ("K103", "topology/snippet.py:f")]


@pytest.mark.parametrize("code", CODES.values(), ids=str)
def test_a_code_says_what_it_means_in_sentences_and_what_to_do(code: Code) -> None:
    assert CODE.fullmatch(code.name)
    assert code.title[0].isupper() or code.title.startswith(("process", "poll", "__main__", "--set"))
    assert not code.title.endswith(".")
    assert len(code.title) <= 80
    assert code.cause.endswith(".")
    assert code.cause.count(". ") <= 3
    assert code.next.endswith(".")
    assert not code.next[0].isupper()
    assert (code.title + code.cause + code.next).isprintable()


def test_each_name_is_given_once_and_stands_in_its_group() -> None:
    names = [code.name for group in GROUPS.values() for code in group]
    assert len(names) == len({*names})
    for number, group in enumerate(GROUPS.values(), start=1):
        assert [code.name for code in group] == sorted(code.name for code in group)
        assert {code.name[:2] for code in group} == {f"K{number}"}


def test_the_page_of_errors_is_up_to_date_and_each_code_has_an_anchor() -> None:
    spec = importlib.util.spec_from_file_location("docs_errors", ROOT / "docs" / "errors.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    there = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert there == generator.page(), "write it anew: python docs/errors.py"
    assert [code for code in CODES if f"\n({code})=\n### {code}: " not in there] == []


@pytest.mark.parametrize(("module", "extra"), OF_EXTRAS.items())
def test_what_a_missing_module_is_said_to_come_with_brings_it(module: str, extra: str) -> None:
    with open(ROOT / "pyproject.toml", "rb") as settings:
        extras = tomllib.load(settings)["project"]["optional-dependencies"]
    assert any(re.match(rf"{module}\b", requirement) for requirement in extras[extra])


# -- what errors carry


def test_an_error_ends_its_traceback_in_what_to_do_and_keeps_its_sentence() -> None:
    error = ConfigurationError("there is no file x", code=FILE_NOT_FOUND, next="name another.")
    assert (str(error), error.code, error.next) == ("there is no file x", FILE_NOT_FOUND, "name another.")
    assert error.__notes__ == ["  next: name another   (K112: `kedge explain K112`)"]
    assert ConfigurationError("no", code=FILE_NOT_FOUND).next == FILE_NOT_FOUND.next


def test_a_users_own_error_needs_no_code_and_says_no_more_than_they_said() -> None:
    error = Reject("never")
    assert (str(error), error.code, error.next, hasattr(error, "__notes__")) == ("never", None, "", False)
    assert error.users_trace() == ""


def test_mistakes_end_in_their_codes_whoever_they_are_said_of() -> None:
    problem = Problem(DUPLICATE_COMPONENT_NAME, "its name is taken").of("'parse'")
    mistake = Mistake(problem, "a.py", 3, code=problem.code)
    assert str(DeclarationError("t", [mistake])).splitlines()[1] == "  a.py:3: 'parse': its name is taken (K204)"


def test_a_constant_has_a_name_of_words_and_its_code_as_a_field() -> None:
    assert len({*CONSTANTS.values()}) == len(CONSTANTS)
    assert [name for name in CONSTANTS if not re.fullmatch(r"[A-Z][A-Z0-9_]*[A-Z]", name)] == []
