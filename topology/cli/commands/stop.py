"""`kedge stop`: ends a run that is under way, waits for its end, and says how it has ended."""

import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final

import typer

from topology.cli.cleanup import ENDING
from topology.cli.options import DebugOption
from topology.cli.output import terminal
from topology.cli.state_dir_argument import TopologyArgument, WhereOption, place
from topology.cli.state_dirs import called
from topology.codes.command_line import CONFLICTING_STOP_OPTIONS, NO_ACTIVE_RUN, STOP_REFUSED
from topology.errors import ConfigurationError, KedgeError, WorkerError
from topology.text import printable

if TYPE_CHECKING:
    from topology.cli.run_client import RunConnection
    from topology.runtime.run.command_socket import Ended, How

EXAMPLES: Final = (
    ("kedge stop", "the run in this folder, as Ctrl-C does: what is under way is done first, within drain_timeout_s"),
    ("kedge stop ssh-alerts --drain", "wait until all that was read is done, so that a changed topology may follow"),
    ("kedge stop --now", "end it at once; the next run reads again what was under way"),
)
TOLD_EACH: Final = 10  # accounts of what is under way, two a second, that one line is written for, in the first minute
TOLD_LATER: Final = 60  # and afterwards
A_MINUTE: Final = 120  # accounts
SILENT: Final = 10  # seconds without a word, after which that is said
ACCOUNTS_FREE: Final = 100  # that may come at once, when a terminal was paused,
ACCOUNTS_PER_S: Final = 20  # and a second besides: a run gives two

DrainOption = Annotated[
    bool,
    typer.Option("--drain", help="Wait, however long, until all that was read is done: a changed topology may follow."),
]
NowOption = Annotated[bool, typer.Option("--now", help="End at once; what is under way is read again by the next run.")]


def stop(
    topology: TopologyArgument = None,
    drain: DrainOption = False,
    now: NowOption = False,
    state_dir: WhereOption = None,
    debug: DebugOption = False,
) -> None:
    """Stop a run that is under way.

    Nothing new is read, and what is under way is done, within the topology's drain_timeout_s. Waits for the end and
    says how it came. Ctrl-C leaves the run draining.
    """
    if drain and now:
        raise ConfigurationError(
            "--drain waits for what is under way, and --now does not", code=CONFLICTING_STOP_OPTIONS
        )
    from topology.cli import run_client

    directory = place(topology, state_dir, narrowed=run_client.runs)
    how: How = "now" if now else "drain all" if drain else "drain"
    try:
        line = run_client.reached(directory)
        if line is None:
            raise WorkerError(f"nothing runs on {printable(str(directory))}", code=NO_ACTIVE_RUN)
        status = _stopped(line, directory, how)
    except WorkerError as error:
        raise typer.Exit(told_as_1(error, debug=debug)) from error
    raise typer.Exit(status)


def told_as_1(error: KedgeError, *, debug: bool) -> int:
    """Tells an error of something that was understood, and could not be done: status 1."""
    from topology.cli.errors import told

    told(error, debug=debug)
    return 1


def _stopped(line: "RunConnection", directory: Path, how: "How") -> int:
    """Stops the run and stays until its end. Returns the exit status."""
    from topology.cli import run_client
    from topology.cli.next_steps import dead_list
    from topology.cli.next_steps import stop as stop_command
    from topology.runtime.run.command_socket import Ended, Going, Stop, Trouble

    said = {
        "drain": "draining: nothing new is read, and what is under way is done",
        "drain all": "draining, however long it takes: nothing new is read, and all that was read is done",
        "now": "ending now",
    }
    name = printable(called(directory))

    def silent(seconds: int) -> None:
        if seconds % SILENT == 0:
            terminal.say(f"{name}: the run says nothing since {seconds} s: its event loop may be blocked")

    with line:
        line.ask(Stop(how))
        accounts, begun = 0, line.clock()
        try:
            for number in ENDING:
                signal.signal(number, _interrupt)
            terminal.say(f"{name}: {said[how]}")
            while True:
                answer = line.heard(silent)
                if isinstance(answer, Ended):
                    text, status = verdict(how, answer, dead_list(directory), stop_command(directory, "--drain"))
                    terminal.put(f"{name}: {text}")
                    return status
                if not isinstance(answer, Going):
                    why = answer.text if isinstance(answer, Trouble) else repr(answer)
                    raise WorkerError(f"the run has answered: {printable(why)[:200]}", code=STOP_REFUSED)
                accounts += 1
                if accounts > ACCOUNTS_FREE + ACCOUNTS_PER_S * (line.clock() - begun):
                    raise run_client.no_run("it tells of its end again and again, and does not end")
                if accounts % (TOLD_EACH if accounts <= A_MINUTE else TOLD_LATER) == 0:
                    terminal.say(f"{name}: {printable(answer.text)}")
        except KeyboardInterrupt:
            at_once = stop_command(directory, "--now")
            left = "is ending" if how == "now" else f"goes on draining; {at_once} ends it at once"
            terminal.say(f"{name}: not waited for any more; the run {left}", level="warning")
            return 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ends the waiting, once: it may come twice, to the process and to its group."""
    for one in ENDING:
        signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt


def verdict(
    how: "How", end: "Ended", dead_list: str = "kedge dead list", patient: str = "kedge stop --drain"
) -> tuple[str, int]:
    """How the run has ended, in a sentence, and the exit status: 0 where what was asked has happened. `dead_list` and
    `patient` are commands to go on with."""
    letters = f"; {end.dead:,} dead, see {dead_list}" if end.dead else ""
    left = f"{end.aborted:,} message{'s' * (end.aborted != 1)} not done"
    if how == "now":
        return f"ended at once: {left}{letters}", 0
    if end.drained and end.clean:
        return f"drained: everything read is done; a changed topology may follow{letters}", 0
    if end.drained:
        return (
            "drained: everything that this run has read is done, and of what earlier runs had under way not all is "
            f"known to be; a changed topology needs --accept-duplicates{letters}",
            0,
        )
    if end.ended == "failed":
        return f"has failed: {printable(end.problem or 'its log says why')}; {left}{letters}", 1
    if end.ended == "aborted":
        return f"was ended by force: {left}{letters}", 1
    return (
        f"stopped, and not drained within its drain_timeout_s: {left}, and read again by the next run ({patient} waits "
        f"for them){letters}",
        1,
    )
