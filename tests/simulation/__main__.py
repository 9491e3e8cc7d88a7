"""`python -m tests.simulation`: many seeds through the simulator; tells which of them fail, and how to run one again.

Exit status 0 when all went well, 1 when one has failed, 2 for wrong use.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence

from tests.simulation.drawing import draw
from tests.simulation.seeds import Seen, run, run_here, run_seeds
from topology.testing.simulator.simulate import SimulationFailed

SHOWN_MAX = 10  # failures that are told in full
PROGRESS_S = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parsed(arguments)
    if given.here:
        for told in run_here(given.base, given.seeds):
            print(json.dumps(told), flush=True)
        return 0
    if given.seed is not None:
        return _one(given.seed)
    begun = time.monotonic()
    seen = asyncio.run(
        run_seeds(given.base, given.seeds, jobs=given.jobs, stop=given.stop, told=_Progress(given.seeds))
    )
    print(f"{seen.table()}\n{time.monotonic() - begun:.0f} s")
    for seed, text in list(seen.failed.items())[:SHOWN_MAX]:
        print(f"\nFAILED {text}\nonce more: python -m tests.simulation --seed {seed}")
    if seen.failed:
        print(f"\n{len(seen.failed)} seeds have failed: {', '.join(map(str, sorted(seen.failed)))}")
    return 1 if seen.failed else 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Many seeds, or one, simulated.")
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="how many (200)")
    parser.add_argument("--base", type=int, default=0, metavar="N", help="the first one (0)")
    parser.add_argument("--seed", type=int, metavar="N", help="this one alone, with all that happens")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes side by side")
    parser.add_argument("--stop", action="store_true", help="end with the first that fails")
    parser.add_argument("--here", action="store_true", help="in this process, a line of JSON for each")
    given = parser.parse_args(arguments)
    if given.seeds < 1 or given.base < 0 or given.jobs < 1:
        parser.error("--seeds and --jobs are at least 1, --base at least 0")
    return given


def _one(seed: int) -> int:
    for declared in draw(seed).components:
        print(f"{declared.name}, {declared.tasks} tasks, reads {', '.join(one.component for one in declared.inputs)}")
    try:
        report = run(seed)
    except SimulationFailed as error:
        print(f"\n{error}")
        return 1
    print("\n".join(("", *report.told)))
    print(f"{report.messages} messages, {report.runs} runs, {report.seconds:.3f} s of virtual time: all well")
    return 0


class _Progress:
    """A line every few seconds, and one for each seed that has failed, as soon as it is known."""

    def __init__(self, seeds: int) -> None:
        self._seeds = seeds
        self._at = time.monotonic()
        self._said: set[int] = set()

    def __call__(self, seen: Seen) -> None:
        for seed in sorted(seen.failed.keys() - self._said):
            self._said.add(seed)
            print(f"seed {seed} has failed", file=sys.stderr, flush=True)
        if time.monotonic() - self._at > PROGRESS_S:
            self._at = time.monotonic()
            failed = f", {len(seen.failed)} failed" if seen.failed else ""
            print(f"{seen.seeds:,} of {self._seeds:,} seeds{failed}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
