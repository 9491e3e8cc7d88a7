"""The files of a starter that reads from one part and sends to another: their texts, and the commands to type.

Pure but for the templates, which are read from `topology/cli/starter`. Must not know the command line.
"""

import importlib.resources
import textwrap
from collections.abc import Iterator, Mapping
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
_ALWAYS: Final = ("Bolt", "Print", "Record", "State", "Topology")


def connected_files(source: StarterPart, sink: StarterPart) -> Mapping[str, str]:
    """Return file → its purpose, of those that this starter has."""
    left_out = {"compose.yaml"} if source.service is None and sink.service is None else set()
    return {name: what for name, what in CONNECTED_FILES.items() if name not in left_out}


def connected_texts(called: str, source: StarterPart, sink: StarterPart) -> Mapping[str, str]:
    """Return file → its text."""
    names = sorted({*_ALWAYS, *source.names, *sink.names}, key=lambda name: (not name.isupper(), name))
    parameters = dict.fromkeys(part.parameters for part in (source, sink) if part.parameters)
    extras = dict.fromkeys(part.extra for part in (source, sink) if part.extra)
    values = {
        "name": called,
        "version": version().split("+")[0],
        "extras": f"[{','.join(extras)}]" if extras else "",
        "names": ", ".join(names),
        "source": source.code,
        "source_title": source.title,
        "sink": sink.code,
        "sink_title": sink.title,
        "parameters": ", ".join(parameters),
        "steps": "\n".join(f"- `{step}`" for step in steps(source, sink)),
        "feed": _feed(source, sink),
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


def steps(source: StarterPart, sink: StarterPart, *, kedge: str = "kedge") -> Iterator[str]:
    """Yield the commands that begin the servers, make what has to exist, send readings, and run the topology."""
    if source.service is not None or sink.service is not None:
        yield "docker compose up -d --wait"
    if source.prepare or sink.prepare:
        yield "python feed.py prepare"
    if source.is_server:
        yield f"{source.run.replace('kedge', kedge)} &"
        yield "python feed.py"
    else:
        if not source.is_piped:
            yield "python feed.py"
        yield source.run.replace("kedge", kedge)


def _feed(source: StarterPart, sink: StarterPart) -> str:
    prepared = source.prepare + sink.prepare or "print('nothing has to be prepared')\n"
    return (
        "async def prepare() -> None:\n"
        + textwrap.indent(prepared, "    ")
        + "\n\nasync def send(readings: list[str]) -> None:\n"
        + textwrap.indent(source.send, "    ").rstrip("\n")
    )


def _compose(source: StarterPart, sink: StarterPart) -> str:
    services = dict.fromkeys(part.service for part in (source, sink) if part.service is not None)
    return "services:\n" + "".join(f"  {service.name}:\n{service.lines}" for service in services)
