"""The files of a starter that reads from one part and sends to another: their texts, and the commands to type.

Pure but for the templates, which are read from `topology/cli/starter`. Must not know the command line.
"""

import importlib.resources
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from string import Template
from typing import Final

from topology.cli.starter.parts import StarterPart
from topology.version import version

CONNECTED_FILES: Final = {  # file → its purpose, in the order in which they are printed
    "alerts.py": "the topology: readings of sensors, and an alert for each that is too hot",
    "test_alerts.py": "its tests, which take milliseconds",
    "feed.py": "sends sample readings",
    "compose.yaml": "the servers that it needs, for docker compose",
    "README.md": "the commands to type, in ten lines",
    "pyproject.toml": "its requirements, and the settings of pytest and mypy",
    ".gitignore": "the files that runs leave behind",
}
LINE: Final = 120  # characters of a line at most
ELSEWHERE: Final = "   # in a shell of its own"
_ALWAYS: Final = ("Bolt", "Record", "State", "Topology")


def connected_files(source: StarterPart, sink: StarterPart) -> Mapping[str, str]:
    """Return file → its purpose, of those that this starter has."""
    left_out = {"compose.yaml"} if source.service is None and sink.service is None else set()
    return {name: what for name, what in CONNECTED_FILES.items() if name not in left_out}


def connected_texts(called: str, source: StarterPart, sink: StarterPart) -> Mapping[str, str]:
    """Return file → its text."""
    printed = () if source.refuses else ("Print",)
    names = sorted({*_ALWAYS, *printed, *source.names, *sink.names}, key=lambda name: (not name.isupper(), name))
    parameters = dict.fromkeys(part.parameters for part in (source, sink) if part.parameters)
    extras = dict.fromkeys(part.extra for part in (source, sink) if part.extra)
    values = {
        "name": called,
        "version": version().split("+")[0],
        "extras": f"[{','.join(extras)}]" if extras else "",
        "names": _names(names),
        "parse": f"{source.parse}\n\n" if source.parse else "",
        "spouts": _spouts(source),
        "source_title": source.title,
        "sink": sink.code,
        "sink_title": sink.title,
        "parameters": _parameters(*parameters),
        "steps": "\n".join(f"- `{step}`" for step in steps(source, sink)),
        "feed": _feed(source, sink).rstrip("\n"),
        "commands": _commands(source, sink),
        "imports": "import sys\n" if source.prepare or sink.prepare or sink.receive else "",
        "compose": _compose(source, sink),
    }
    starter = importlib.resources.files("topology.cli") / "starter"
    texts = {}
    for name in connected_files(source, sink):
        template = starter / f"connected_{name.removeprefix('.')}.tmpl"
        if not template.is_file():
            template = starter / f"{name.removeprefix('.')}.tmpl"
        texts[name] = Template(template.read_text("utf-8")).substitute(values)
    return texts


def _names(names: Sequence[str]) -> str:
    """Return what is imported from kedge, on one line if that is short enough."""
    line = ", ".join(names)
    if len(f"from kedge import {line}") <= LINE:
        return line
    return "(\n" + "".join(f"    {name},\n" for name in names) + ")"


def _parameters(*parameters: str) -> str:
    line = ", ".join(parameters)
    head = f"def topology({line}) -> Topology:"
    return line if len(head) <= LINE else f"\n    {line}\n"


def steps(source: StarterPart, sink: StarterPart, *, kedge: str = "kedge", python: str = "python") -> Iterator[str]:
    """Yield the commands that begin the servers, make what has to exist, send readings, and run the topology."""
    run = source.run.replace("kedge", kedge, 1).replace("python feed.py", f"{python} feed.py")
    if source.service is not None or sink.service is not None:
        yield "docker compose up -d --wait"
    if source.prepare or sink.prepare:
        yield f"{python} feed.py prepare"
    if sink.receive:
        yield f"{python} feed.py receive{ELSEWHERE}: it prints what it gets"
    if source.runs_first:
        yield f"{run}{ELSEWHERE}"
        yield f"{python} feed.py"
    else:
        if not source.is_piped:
            yield f"{python} feed.py"
        yield run


def _spouts(source: StarterPart) -> str:
    """Return the lines of the topology that make `readings`, and show what is no reading."""
    spout = "messages" if source.parse else "readings"
    lines = [f'{spout} = topology.spout("{spout}", {source.code})']
    if source.parse:
        lines.append('readings = topology.bolt("parse", parse, messages.shuffle())')
    if not source.refuses:
        lines.append(f'topology.bolt("malformed", Print(), {spout}.malformed.shuffle())  # what cannot be read')
    return "\n    ".join(lines)


def _feed(source: StarterPart, sink: StarterPart) -> str:
    """Return feed.py's functions, and the last lines, which call them."""
    functions, calls = [_function("async def send(readings: list[str]) -> None", source.send)], []
    if prepared := "\n".join(filter(None, (source.prepare, sink.prepare))):
        functions.insert(0, _function("async def prepare() -> None", prepared))
        calls.append('if sys.argv[1:] == ["prepare"]:\n        asyncio.run(prepare())')
    if sink.receive:
        functions.append(_function("def receive() -> None", sink.receive))
        calls.append('if sys.argv[1:] == ["receive"]:\n        receive()')
    calls.append("asyncio.run(send(sample()))" if not calls else "else:\n        asyncio.run(send(sample()))")
    calling = "\n    ".join(calls).replace("\n    if ", "\n    elif ")
    return "\n\n".join([*functions, f'if __name__ == "__main__":\n    {calling}\n'])


def _commands(source: StarterPart, sink: StarterPart) -> str:
    """Return the other commands of feed.py, for its first lines."""
    lines = ["`python feed.py prepare` makes what has to exist before."] * bool(source.prepare or sink.prepare)
    lines += ["`python feed.py receive` prints what is posted."] * bool(sink.receive)
    return "\n\n" + "\n".join(lines) + "\n" if lines else ""


def _function(head: str, body: str) -> str:
    return f"{head}:\n{textwrap.indent(body, '    ')}"


def _compose(source: StarterPart, sink: StarterPart) -> str:
    services = dict.fromkeys(part.service for part in (source, sink) if part.service is not None)
    return "services:\n" + "".join(f"  {service.name}:\n{service.lines}" for service in services)
