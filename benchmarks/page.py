"""Makes docs/benchmarks.md, and its drawings, from the JSON that the benchmarks have given. Nothing else writes them.

    .venv/bin/python -m benchmarks.page [FILE …] [--docs FOLDER]

FILES are those of `benchmarks/*.py --json`, of `make peers ARGS="--out FILE"` and of `kedge compare --json`; without
any, all that are kept in benchmarks/results. The same files give the same page, and a test holds the page to that.
Measures nothing, and says of figures only what stands in the files.
"""

import argparse
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.kept import FOLDER, ROOT, Kept, KeptError, load
from benchmarks.sections import Section, of_benchmark, of_comparison, of_modes, of_peers

PAGE: Final = "benchmarks.md"
IMAGES: Final = "images"
DRAWING: Final = "benchmarks-"  # begins the names of this page's drawings
ORDER: Final = ("compare", "peers", "latency", "throughput", "state", "recovery", "bridge", "fraud", "connectors")
HEAD: Final = """\
# Benchmarks

This page is made from the files in `benchmarks/results`, by `.venv/bin/python -m benchmarks.page`; a test holds it to
them. Each section says where its figures were taken, with which settings, and how to take them again. Machines differ,
and so do days: compare ratios within one section, and no figures across two. What follows from them for your own choice
is in [when to use what](when-to-use-what.md).
"""
NONE: Final = """
No results are kept yet. `make figures` takes them, one benchmark after the other, and makes this page; that needs a
machine with nothing else to do, and about an hour and a half.
"""


def main() -> int:
    """Runs the command; the exit status is 2 where a file can't be read, or may not be kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description="Makes docs/benchmarks.md of JSON.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="(default: benchmarks/results/*.json)")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", metavar="FOLDER", help="(default: docs)")
    options = parser.parse_args()
    try:
        made = pages(load(options.files or [*FOLDER.glob("*.json")], platform.node()))
        write(made, options.docs)
    except KeptError as error:
        print(f"page: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"page: {error.filename} is not writable: {error.strerror}", file=sys.stderr)
        return 2
    print(f"{PAGE}: {', '.join(made)}")
    return 0


def pages(kept: Sequence[Kept]) -> dict[str, str]:
    """Name, relative to the folder of the docs → content: the page and its drawings. Pure."""
    ordered = sorted(kept, key=_place)
    comparisons = [result for result in ordered if result.kind == "compare"]
    sections = [_section(result) for result in comparisons]
    if modes := of_modes(comparisons):
        sections.append(modes)
    sections += [_section(result) for result in ordered if result.kind != "compare"]
    drawings = {
        f"{IMAGES}/{DRAWING}{name}.svg": drawn for section in sections for name, drawn in section.drawings.items()
    }
    body = "".join(f"\n{section.text(f'{IMAGES}/{DRAWING}')}" for section in sections) or NONE
    return {PAGE: f"{HEAD}{body}", **drawings}


def write(made: dict[str, str], docs: Path) -> None:
    """Writes all of them, and takes away drawings that no section has any more. Raises OSError."""
    (docs / IMAGES).mkdir(parents=True, exist_ok=True)
    for old in (docs / IMAGES).glob(f"{DRAWING}*.svg"):
        if f"{IMAGES}/{old.name}" not in made:
            old.unlink()
    for name, content in made.items():
        (docs / name).write_text(content, "utf-8")


def _place(kept: Kept) -> tuple[int, str]:
    return (ORDER.index(kept.kind) if kept.kind in ORDER else len(ORDER)), kept.stem


def _section(kept: Kept) -> Section:
    makers = {"compare": of_comparison, "peers": of_peers}
    return makers.get(kept.kind, of_benchmark)(kept)


if __name__ == "__main__":
    sys.exit(main())
