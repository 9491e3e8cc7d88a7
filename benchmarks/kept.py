"""The figures that are kept: JSON files in benchmarks/results, each the one object that a command has given.

What is kept is public: a file that names a path of the machine that it was made on, or that machine, is refused. Knows
no page, and nothing of how anything was measured.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "benchmarks" / "results"
BYTES_MAX: Final = 200_000  # of a file: single latencies are not kept
PATH: Final = re.compile(r"""(?:^|[\s=:'"(,])/(?:[\w.+~-]+/?)+""")  # an absolute one
NAME_MIN: Final = 4  # a host's name of fewer characters would be found in anything


class KeptError(Exception):
    """A file that can't be read, or may not be kept: a sentence."""


@dataclass(frozen=True)
class Kept:
    """What a file holds. `kind`: "compare" for `kedge compare`, else the name of the benchmark."""

    stem: str
    kind: str
    found: dict[str, Any]


def load(paths: Sequence[Path], host: str = "") -> list[Kept]:
    """The files, in the order of their names; `host` is a name that none may tell. Raises KeptError."""
    return [_loaded(path, host) for path in sorted(paths, key=lambda path: path.stem)]


def _loaded(path: Path, host: str) -> Kept:
    try:
        data = path.read_bytes()
        found = json.loads(data)
    except OSError as error:
        raise KeptError(f"{path.name} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise KeptError(f"{path.name} is no JSON: {error}") from error
    kind = kind_of(found)
    if kind is None:
        raise KeptError(f"{path.name} is no object of a benchmark's --json, nor of kedge compare's")
    if len(data) > BYTES_MAX:
        raise KeptError(f"{path.name} has {len(data):,} bytes, and may have {BYTES_MAX:,}")
    if told := next(revealing(found, host), None):
        raise KeptError(f"{path.name} tells of the machine that it was made on: {told!r}")
    return Kept(path.stem, kind, found)


def kind_of(found: Any) -> str | None:
    """Which command has made it; None where that can't be told."""
    if not isinstance(found, dict):
        return None
    if isinstance(found.get("modes"), list) and "topology" in found:
        return "compare"
    if isinstance(found.get("results"), list) and isinstance(found.get("benchmark"), str):
        return str(found["benchmark"])
    return None


def revealing(found: Any, host: str = "") -> Iterator[str]:
    """The texts in it that name an absolute path, or this host."""
    for told in _texts(found):
        if PATH.search(told) or (len(host) >= NAME_MIN and host in told):
            yield told


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
