"""The kept figures: JSON files in benchmarks/results, each the one object that a command has printed.

Kept figures are public: a file that contains a path of its machine, or the machine's name, is refused. Knows no page,
and nothing of how anything was measured.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "benchmarks" / "results"
BYTES_MAX: Final = 200_000  # bytes of a file: single latencies are not kept
PATH: Final = re.compile(r"""(?:^|[\s=:'"(,])/(?:[\w.+~-]+/?)+""")  # an absolute one
NAME_MIN: Final = 4  # a shorter host name would be found in any text


class KeptError(Exception):
    """A file cannot be read, or may not be kept; the text is a sentence."""


@dataclass(frozen=True)
class Kept:
    """The content of a file. `kind`: "compare" for `kedge compare`, else the name of the benchmark."""

    stem: str
    kind: str
    found: dict[str, Any]


def load(paths: Sequence[Path], host: str = "") -> list[Kept]:
    """Return the files, in the order of their names; none may contain the name `host`. Raises KeptError."""
    return [_loaded(path, host) for path in sorted(paths, key=lambda path: path.stem)]


def _loaded(path: Path, host: str) -> Kept:
    try:
        data = path.read_bytes()
        found = json.loads(data)
    except OSError as error:
        raise KeptError(f"{path.name} is not readable: {error.strerror}") from error
    except ValueError as error:
        raise KeptError(f"{path.name} is no JSON: {error}") from error
    kind = kind_of(found)
    if kind is None:
        raise KeptError(f"{path.name} is no object of a benchmark's --json, nor of kedge compare's")
    if len(data) > BYTES_MAX:
        raise KeptError(f"{path.name} has {len(data):,} bytes, and may have {BYTES_MAX:,}")
    if finding := next(revealing(found, host), None):
        raise KeptError(f"{path.name} tells of the machine that it was made on: {finding!r}")
    return Kept(path.stem, kind, found)


def kind_of(found: Any) -> str | None:
    """Return the command that made the object; None if that is unknown."""
    if not isinstance(found, dict):
        return None
    if isinstance(found.get("modes"), list) and "topology" in found:
        return "compare"
    if isinstance(found.get("results"), list) and isinstance(found.get("benchmark"), str):
        return str(found["benchmark"])
    return None


def revealing(found: Any, host: str = "") -> Iterator[str]:
    """Yield the texts in it that name an absolute path, or this host."""
    for finding in _texts(found):
        if PATH.search(finding) or (len(host) >= NAME_MIN and host in finding):
            yield finding


def _texts(found: Any) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict):
        for key, value in found.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(found, list):
        for value in found:
            yield from _texts(value)
