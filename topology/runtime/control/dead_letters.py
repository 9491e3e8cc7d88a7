"""Questions about the dead letters of a whole run: ask all its workers, and merge their answers.

Letters are listed in the order of their names: by the worker that first stored each, and there by age. Must not know
how workers are reached, nor what they answer from.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from topology.storage.dead_questions import DeadAnswer, DeadAsk
from topology.storage.encoding.packing import LETTERS_BYTES_MAX, letter_of, letter_order

LIMIT_MAX: Final = 10_000  # letters of one list
ACTS: Final = ("list", "show", "replay", "drop")

AskAll = Callable[[DeadAsk], Awaitable[Sequence[DeadAnswer]]]  # asks all workers, and returns one answer each


async def answer_of_all(ask: DeadAsk, ask_all: AskAll) -> DeadAnswer:
    """Return the answer of a run. An error is in its `problem`; no question raises."""
    if problem := _mistake(ask):
        return DeadAnswer(ask.number, problem=problem)
    if ask.act == "list":
        return await _listed(ask, ask_all)
    answers = await ask_all(ask)
    letters = [letter for answer in answers for letter in answer.letters]
    names = [name for answer in answers for name in answer.names]
    problems = [*dict.fromkeys(line for answer in answers for line in answer.problem.split("\n") if line)]
    problems += _missing(ask, {*names, *(letter_of(letter).name for letter in letters)}, problems)
    shown = [*_fitting(sorted(letters, key=_order))]
    if len(shown) < len(letters):
        problems.append(f"only {len(shown):,} of {len(letters):,} are shown: their records are too long for one answer")
    return DeadAnswer(
        ask.number,
        tuple(shown),
        tuple(sorted(names, key=letter_order)),
        sum(answer.total for answer in answers),
        "\n".join(problems),
    )


def not_running(ask: DeadAsk) -> DeadAnswer:
    """Return the answer of a run without running workers."""
    return DeadAnswer(ask.number, problem="the run has not begun yet, or has ended: ask again in a moment")


def _mistake(ask: DeadAsk) -> str:
    """Return the error in a question; empty for a valid one."""
    if ask.act not in ACTS:
        return f"nothing can be done to dead letters by {ask.act!r:.40}; there are {', '.join(ACTS)}"
    try:
        for name in (*ask.names, *([ask.after] if ask.after else [])):
            letter_order(name)
    except ValueError as error:
        return str(error)
    return ""


async def _listed(ask: DeadAsk, ask_all: AskAll) -> DeadAnswer:
    """Return one page. A worker may return fewer letters than requested and have more. Then nothing after its last
    letter is taken, and all workers are asked once more."""
    limit = max(1, min(ask.limit, LIMIT_MAX))
    page: list[bytes] = []
    after, size = ask.after, 0
    while True:
        answers = await ask_all(DeadAsk(ask.number, ask.act, (), after, limit - len(page)))
        total = sum(answer.total for answer in answers)
        problem = "\n".join(dict.fromkeys(answer.problem for answer in answers if answer.problem))
        pages = [answer.letters for answer in answers if answer.letters]
        if not pages:
            return DeadAnswer(ask.number, tuple(page), (), total, problem)
        last = min(_order(letters[-1]) for letters in pages)
        for letter in sorted((letter for letters in pages for letter in letters if _order(letter) <= last), key=_order):
            size += len(letter)
            if len(page) == limit or (page and size > LETTERS_BYTES_MAX):
                return DeadAnswer(ask.number, tuple(page), (), total, problem)
            page.append(letter)
        if len(page) == limit or problem:
            return DeadAnswer(ask.number, tuple(page), (), total, problem)
        after = letter_of(page[-1]).name


def _missing(ask: DeadAsk, found: set[str], problems: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each unknown name. If an answer stopped half-way, say nothing of the others."""
    mentioned = {line.split(":", 1)[0] for line in problems}
    if mentioned <= set(ask.names):
        yield from (f"{name}: there is no such dead letter" for name in ask.names if name not in found | mentioned)


def _fitting(letters: Sequence[bytes]) -> Iterator[bytes]:
    size = 0
    for letter in letters:
        size += len(letter)
        if size <= LETTERS_BYTES_MAX:
            yield letter


def _order(letter: bytes) -> tuple[int, int]:
    return letter_order(letter_of(letter).name)
