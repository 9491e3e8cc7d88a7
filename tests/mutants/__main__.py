"""`python -m tests.mutants`: applies one mutant after the other, and tells which of them a test has seen.

Exit status 0 when every mutant was killed, 1 when one survived or a named test is not green without any, 2 for wrong
use. The main flow, and what is printed; must not know how a test is run.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.catalogue import MUTANTS, of_rules
from tests.mutants.copies import Copy, Outcome, Verdict
from tests.mutants.mutant import BrokenMutant, Mutant


@dataclass(frozen=True)
class Result:
    mutant: Mutant
    outcome: Outcome
    seconds: float

    @property
    def killed(self) -> bool:
        return self.outcome.kills(self.mutant)


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parsed(arguments)
    try:
        mutants = of_rules(given.rules)
    except KeyError as error:
        known = ", ".join(dict.fromkeys(one.rule for one in MUTANTS))
        print(f"no mutant breaks rule {error}; there are mutants of {known}", file=sys.stderr)
        return 2
    if given.list:
        for mutant in mutants:
            print(f"{mutant.rule:4} {mutant.breaks}\n     {mutant.file}  {mutant.test}")
        return 0
    begun = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="kedge-mutants-") as folder:
            results = asyncio.run(_run_all(mutants, Path(folder), given))
    except KeyboardInterrupt:
        print("\ninterrupted; nothing is left behind", file=sys.stderr)
        return 130
    if results is None:
        return 1
    return _summed_up(results, time.monotonic() - begun)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Breaks each correctness rule by a small patch, and shows that its test turns red.",
    )
    parser.add_argument("rules", nargs="*", metavar="RULE", help="only these rules, A1 for example")
    parser.add_argument("--list", action="store_true", help="say what would be broken, and run nothing")
    parser.add_argument("--why", action="store_true", help="show for each mutant what its test found")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="how many run side by side (2)")
    given = parser.parse_args(arguments)
    given.rules = [rule.upper() for rule in given.rules]
    if given.jobs < 1:
        parser.error("--jobs is at least 1")
    return given


async def _run_all(mutants: list[Mutant], folder: Path, given: argparse.Namespace) -> list[Result] | None:
    """The mutants' results; None where their tests are not green by themselves."""
    copies = [Copy(folder / str(number)) for number in range(min(given.jobs, len(mutants)))]
    tests = sorted({mutant.test for mutant in mutants})
    begun = time.monotonic()
    shares = [(copy, tests[number :: len(copies)]) for number, copy in enumerate(copies)]
    for outcome in await asyncio.gather(*(copy.run(share) for copy, share in shares if share)):
        if outcome.verdict is not Verdict.GREEN:
            print(f"without any mutant the tests are {outcome.verdict.value}: {outcome.text}")
            return None
    print(f"{len(tests)} named tests are green without mutants ({time.monotonic() - begun:.1f} s)", flush=True)
    waiting, results = list(reversed(mutants)), list[Result]()
    await asyncio.gather(*(_work(copy, waiting, results, given.why) for copy in copies))
    return results


async def _work(copy: Copy, waiting: list[Mutant], results: list[Result], why: bool) -> None:
    while waiting:
        mutant = waiting.pop()
        begun = time.monotonic()
        try:
            with copy.patched(mutant):
                outcome = await copy.run([mutant.test])
        except BrokenMutant as error:
            outcome = Outcome(Verdict.BROKEN, str(error))
        result = Result(mutant, outcome, time.monotonic() - begun)
        results.append(result)
        _tell(result, why)


def _tell(result: Result, why: bool) -> None:
    mutant, outcome = result.mutant, result.outcome
    word = "killed" if result.killed else f"SURVIVED ({outcome.verdict.value})"
    print(f"{mutant.rule:4} {word:8} {result.seconds:5.1f} s  {mutant.breaks}", flush=True)
    if why or not result.killed:
        print(f"     {mutant.file}, by {mutant.test}: {outcome.text}".rstrip(": "), flush=True)


def _summed_up(results: list[Result], seconds: float) -> int:
    """Prints the table. The exit status."""
    by_rule = Counter(one.mutant.rule for one in results)
    killed = Counter(one.mutant.rule for one in results if one.killed)
    print("\nrule  mutants  killed  seconds")
    for rule in dict.fromkeys(one.rule for one in MUTANTS if one.rule in by_rule):
        took = sum(one.seconds for one in results if one.mutant.rule == rule)
        print(f"{rule:4} {by_rule[rule]:8} {killed[rule]:7} {took:8.1f}")
    print(f"\n{len(results)} mutants, {killed.total()} killed, in {seconds:.0f} s")
    return 0 if killed.total() == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
