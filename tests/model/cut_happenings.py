"""What can happen in the model of checkpoints, as a table.

Each entry picks from choices; it must not know whether Hypothesis or a seed does that.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cut_run import Run
from cut_values import FIRST, SECOND
from cut_worker import WORKERS

Pick = Callable[[Sequence[Any]], Any]
ALL: Final = range(WORKERS)


def emit(run: Run, pick: Pick) -> None:
    home = pick(run.homes)
    if there := home.at_hand():
        home.emit(pick(there))


def work(run: Run, pick: Pick) -> None:
    task = run.task(pick([FIRST, SECOND]))
    if task.queue:
        task.work()
        if pick([True, False]):
            task.send()


def send(run: Run, pick: Pick) -> None:
    task = run.task(pick([FIRST, SECOND]))
    if pick([True, False]):
        task.worker.sync()
    else:
        task.worker.write()
    task.send()


def fail(run: Run, pick: Pick) -> None:
    home = pick(run.homes)
    if home.pending:
        message = pick(sorted(home.pending))
        home.pending[message].out = False
        if pick([True, False]):
            home.die(message)


def replay_by_hand(run: Run, pick: Pick) -> None:
    for home in run.homes:
        if letters := home.letters_to_replay():
            home.replay_by_hand(pick(letters))


def drop(run: Run, pick: Pick) -> None:
    for home in run.homes:
        if letters := home.letters_to_replay():
            home.drop(pick(letters))


def fire(run: Run, pick: Pick) -> None:
    run.task(FIRST).fire()


def fires(run: Run, pick: Pick) -> None:
    """A timer is due, and what it emits is done at once."""
    run.flow()
    run.task(FIRST).fire()
    run.flow()


def timer_is_counted(run: Run, pick: Pick) -> None:
    """A timer is due, and what it emits is counted below; its tree is not done."""
    run.flow()
    run.task(FIRST).fire()
    run.flow(FIRST)
    second = run.task(SECOND)
    while second.queue:
        second.work()


def timers_again(run: Run, pick: Pick) -> None:
    run.task(FIRST).send_timers_again()


def slow_letter(run: Run, pick: Pick) -> None:
    """A tuple is slow, its message is given up, and the letter is replayed by hand."""
    home = pick(run.homes)
    home.emit_next()
    run.hold(run.stages[0])
    for message in list(home.pending):
        home.die(message)
    for message in home.letters_to_replay():
        home.replay_by_hand(message)


def dropped_late(run: Run, pick: Pick) -> None:
    """A tuple is slow, its message is given up, and the letter is dropped."""
    home = pick(run.homes)
    home.emit_next()
    run.flow(*run.stages[:-1])
    run.hold(SECOND)
    for message in list(home.pending):
        home.die(message)
    for message in home.letters_to_replay():
        home.drop(message)


def arrives_in_between(run: Run, pick: Pick) -> None:
    """What was slow arrives when all have gathered, and before the checkpoint is decided."""
    while run.current == 0 or any(worker.gathered < run.current for worker in run.workers):
        step(run, lambda choices: choices[0])
    run.release()
    run.flow()
    while run.current:
        step(run, lambda choices: choices[0])
    for index in ALL:
        run.hear(index)


def step(run: Run, pick: Pick) -> None:
    """The next step of a checkpoint: of all workers, or of one."""
    if run.unheard:
        heard = ALL if pick([True, False]) else [pick(sorted(run.unheard))]
        for index in heard:
            run.hear(index)
        return
    left = [index for index in ALL if index not in run.noted]
    action: Callable[[int], object] = run.note
    if not left:
        if run.barrier is None:
            run.send_barrier()
        left = [index for index in ALL if run.workers[index].gathered < run.current]
        action = run.gather
    if not left:
        left, action = [index for index in ALL if index not in run.committed], run.commit
    if not left:
        run.decide()
    for index in left if pick([True, False]) else left[:1]:
        action(index)


def early(run: Run, pick: Pick) -> None:
    """One home notes, and one worker tries to gather before the others have noted."""
    run.note(pick(ALL))
    run.gather(pick([2, 1, 0]))


def full(run: Run, pick: Pick) -> None:
    """A store is full, when the others have committed."""
    index = pick(ALL)
    run.commit(index, full=True)
    for other in ALL:
        if other != index:
            run.commit(other)


def ends(run: Run, pick: Pick) -> None:
    """The run is stopped in order, with whatever it has under way, and another one begins."""
    run.checkpoint()
    run.kill_all(power=False)


def die(run: Run, pick: Pick) -> None:
    run.die(pick([[1], [2], [0], [0, 1], [1, 2], [0, 2]]))


def kill_all(run: Run, pick: Pick) -> None:
    run.kill_all(power=pick([True, False]), keeps=pick([0, 1]))


def overtaken(run: Run, pick: Pick) -> None:
    """A tuple is slow, and its message is done by another attempt."""
    for home in run.homes:
        home.emit_next()
    stage = pick([SECOND, FIRST])
    run.flow(*run.stages[:-1]) if stage == SECOND else [home.replay() for home in run.homes]
    run.hold(stage)
    for home in run.homes:
        home.fail_all()
    run.flow()


HAPPENINGS: Final[Mapping[str, Callable[[Run, Pick], None]]] = {
    "emit": emit,
    "flow": lambda run, pick: run.flow(*pick([run.stages, [FIRST], [SECOND]]), syncs=pick([True, False])),
    "replay": lambda run, pick: [home.replay() for home in run.homes],
    "work": work,
    "send": send,
    "hold": lambda run, pick: run.hold(pick([SECOND, FIRST])),
    "arrives": lambda run, pick: run.release(),
    "overtaken": overtaken,
    "slow_letter": slow_letter,
    "dropped_late": dropped_late,
    "arrives_in_between": arrives_in_between,
    "note": lambda run, pick: run.note(pick(ALL)),
    "barrier": lambda run, pick: run.send_barrier(),
    "gather": lambda run, pick: run.gather(pick(ALL)),
    "commit": lambda run, pick: run.commit(pick(ALL)),
    "decide": lambda run, pick: run.decide(),
    "hear": lambda run, pick: run.hear(pick(ALL)),
    "early": early,
    "full": full,
    "ends": ends,
    "step": step,
    "checkpoint": lambda run, pick: run.checkpoint(),
    "fail": fail,
    "replay_by_hand": replay_by_hand,
    "drop": drop,
    "fire": fire,
    "fires": fires,
    "timer_is_counted": timer_is_counted,
    "timers_again": timers_again,
    "die": die,
    "kill_all": kill_all,
}

USUAL: Final = ("emit", "flow", "flow")
STEPS: Final = ("step", "step", "step", "step")
# What the rarest mistakes take: walks of these alone are a part of all walks.
FOCI: Final = (
    [*USUAL, *STEPS, "die"],
    [*USUAL, *STEPS, "kill_all"],
    [*USUAL, *STEPS, "gather", "commit", "decide", "die", "kill_all"],
    [*USUAL, *STEPS, "work", "send", "hold", "arrives", "gather", "die"],
    ["emit", "flow", "step", "step", "commit", "commit", "decide", "step", "die", "kill_all"],
    ["emit", "flow", "early", *STEPS, "die"],
    ["emit", "flow", *STEPS, "full", "die"],
    [*USUAL, *STEPS, "ends", "die"],
    ["emit", "flow", "gather", *STEPS, "die"],
    ["emit", "fires", "fires", "step", "step", "die"],
    ["emit", "flow", "flow", "gather", "step", "step", "die"],
    ["emit", "flow", "step", "commit", "step", "decide", "die"],
    [*USUAL, "checkpoint", "overtaken", "arrives", "hear"],
    [*USUAL, *STEPS, "overtaken", "arrives", "die"],
    [*USUAL, *STEPS, "fail", "replay_by_hand", "die", "checkpoint"],
    [*USUAL, *STEPS, "fail", "drop", "die", "checkpoint"],
    ["slow_letter", "flow", "checkpoint", "arrives"],
    ["emit", "flow", "dropped_late", "arrives_in_between", "die"],
    ["emit", "flow", "flow", "step", "step", "commit", "decide", "die"],
    [*USUAL, *STEPS, "fire", "timers_again", "die", "checkpoint"],
    ["emit", "timer_is_counted", "timers_again", "checkpoint", "checkpoint", "die", "flow"],
    ["emit", "emit", "work", "send", "send", *STEPS, "die", "kill_all", "replay"],
)
