"""state.json: the manifest of a state directory, as a value and as bytes, and the detection of damage to it.

Since format 2 it has a checksum over all of it (F22). Format 1, which had only incarnations, key and notes, is read and
rewritten. So is format 2, without `boot`, but not before something changes: a version that reads format 2 may have to
end what it began. Pure. The policy for formats: docs/explanation/state-format.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from acker.identity import KEY_BYTES

FORMAT: Final = 3
BYTES_MAX: Final = 4 * 1024 * 1024  # of the file
INCARNATION_MAX: Final = 1 << 53  # starts that a state directory can have counted; more is damage

_FORMAT_1: Final = {"format", "topology", "incarnation", "key", "notes"}


class NewerFormat(Exception):
    """The manifest was written by a newer Kedge."""


@dataclass
class StoreEntry:
    """The entry of a worker's store: its id, and its number of commits when that was last noted. 0: it is about to be
    made, and nothing was ever kept in it."""

    id: str  # hex
    commits: int


@dataclass
class Manifest:
    """The whole manifest. `key` is in hex. `shape` is the text that the topology is compared by, or None before its
    first run."""

    topology: str
    key: str
    incarnation: int = 0
    notes: dict[str, str] = field(default_factory=dict)
    run_id: str = ""  # part of all identities, if `--run-id` has started new ones
    clean: bool = True  # nothing was in flight when the last run ended
    shape: str | None = None
    files: dict[str, StoreEntry] = field(default_factory=dict)
    lost: int = 0  # files that were given up with --accept-loss
    forgetting: bool = False  # positions are being deleted (--fresh), and some may be left
    boot: str = ""  # the start of the machine in which all logs can be read as a whole; empty: in any
    saved_at: float = 0.0  # of a savepoint: seconds since 1970 when it was decided; else 0
    replacing: str = ""  # the folder of a savepoint that is being put in place of all there is; empty for none
    upgraded: bool = field(default=False, compare=False)  # it was read from an older format


def packed_manifest(manifest: Manifest) -> bytes:
    """Return the file's content."""
    content = {"format": FORMAT, **asdict(manifest)}
    del content["upgraded"]
    content["check"] = _check(content)
    return json.dumps(content, indent=1).encode("ascii") + b"\n"


def manifest_of(content: bytes) -> Manifest:
    """Return the manifest of a file's content. Raises NewerFormat, and ValueError for damage."""
    try:
        state: dict[str, Any] = json.loads(content.decode("ascii"))
        found = state.pop("format")
        if type(found) is int and found > FORMAT:
            raise NewerFormat(str(found))
        if found == 1 and type(found) is int and not state.keys() - _FORMAT_1:
            manifest = Manifest(**state, upgraded=True)
        elif type(found) is int and found in (2, FORMAT) and state.pop("check") == _check({"format": found, **state}):
            state["files"] = {name: StoreEntry(**known) for name, known in state["files"].items()}
            manifest = Manifest(**state)
        else:
            raise ValueError("not what was written")
        _check_types(manifest)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return manifest


def _check_types(manifest: Manifest) -> None:
    fields = {"topology": str, "key": str, "incarnation": int, "notes": dict, "run_id": str, "clean": bool}
    fields |= {"files": dict, "lost": int, "forgetting": bool, "boot": str, "saved_at": float, "replacing": str}
    if not all(type(getattr(manifest, name)) is kind for name, kind in fields.items()):
        raise ValueError("a field has another type")
    if len(bytes.fromhex(manifest.key)) != KEY_BYTES or not 0 <= manifest.incarnation < INCARNATION_MAX:
        raise ValueError("a field is out of its range")
    if not all(type(note) is str for note in manifest.notes.values()) or type(manifest.shape) not in (str, type(None)):
        raise ValueError("a note is no text")
    if not all(type(known.id) is str and type(known.commits) is int for known in manifest.files.values()):
        raise ValueError("a file's entry has another type")


def _check(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()
