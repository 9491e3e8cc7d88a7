"""`kedge stop`: end an active run, wait for its end, and report how it ended."""

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
    (
        "kedge stop",
        "the run in this folder, as Ctrl-C does: messages in flight are finished first, within drain_timeout_s",
    ),
    ("kedge stop ssh-alerts --drain", "wait until all that was read is done, so that you can change the topology"),
    ("kedge stop --now", "end it at once; the next run reads the messages in flight again"),
)
TOLD_EACH: Final = 10  # in the first minute, one line is printed per 10 progress reports; a run sends two per second
TOLD_LATER: Final = 60  # after the first minute, one line is printed per 60 progress reports
A_MINUTE: Final = 120  # progress reports of the first minute
SILENT: Final = 10  # seconds without a report, after which a line says so
ACCOUNTS_FREE: Final = 100  # progress reports that may come at once, for example after a terminal was paused
ACCOUNTS_PER_S: Final = 20  # further progress reports allowed per second; a run sends two

DrainOption = Annotated[
    bool,
    typer.Option(
        "--drain", help="Wait without a time limit until all that was read is done. Then you can change the topology."
    ),
]
NowOption = Annotated[bool, typer.Option("--now", help="End at once. The next run reads the messages in flight again.")]


def stop(
    topology: TopologyArgument = None,
    drain: DrainOption = False,
    now: NowOption = False,
    state_dir: WhereOption = None,
    debug: DebugOption = False,
) -> None:
    """Stop an active run.

    The run reads nothing new, and finishes the messages in flight, within the topology's drain_timeout_s. The command
    waits for the end and reports how the run ended. Ctrl-C ends the command; the run goes on draining.
    """
    if drain and now:
        raise ConfigurationError(
            "--drain waits for the messages in flight, and --now does not", code=CONFLICTING_STOP_OPTIONS
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
        raise typer.Exit(print_error_as_1(error, debug=debug)) from error
    raise typer.Exit(status)


def print_error_as_1(error: KedgeError, *, debug: bool) -> int:
    """Print the error of a valid command that could not be done. Return exit status 1."""
    from topology.cli.errors import print_error

    print_error(error, debug=debug)
    return 1


def _stopped(line: "RunConnection", directory: Path, how: "How") -> int:
    """Stop the run and wait for its end. Return the exit status."""
    from topology.cli import run_client
    from topology.cli.next_steps import dead_list
    from topology.cli.next_steps import stop as stop_command
    from topology.runtime.run.command_socket import Ended, Going, Stop, Trouble

    said = {
        "drain": "draining: the run reads nothing new, and finishes the messages in flight",
        "drain all": "draining without a time limit: the run reads nothing new, and finishes all that it has read",
        "now": "ending now",
    }
    name = printable(called(directory))

    def silent(seconds: int) -> None:
        if seconds % SILENT == 0:
            terminal.say(f"{name}: no answer from the run for {seconds} s: its event loop may be blocked")

    with line:
        line.ask(Stop(how))
        accounts, started_at = 0, line.clock()
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
                if accounts > ACCOUNTS_FREE + ACCOUNTS_PER_S * (line.clock() - started_at):
                    raise run_client.no_run("it reports its end repeatedly, and does not end")
                if accounts % (TOLD_EACH if accounts <= A_MINUTE else TOLD_LATER) == 0:
                    terminal.say(f"{name}: {printable(answer.text)}")
        except KeyboardInterrupt:
            at_once = stop_command(directory, "--now")
            left = "is ending" if how == "now" else f"goes on draining; {at_once} ends it at once"
            terminal.say(f"{name}: stopped waiting; the run {left}", level="warning")
            return 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the waiting, once: the signal may come twice, to the process and to its group."""
    for ending in ENDING:
        signal.signal(ending, signal.SIG_IGN)
    raise KeyboardInterrupt


def verdict(
    how: "How", end: "Ended", dead_list: str = "kedge dead list", patient: str = "kedge stop --drain"
) -> tuple[str, int]:
    """Return a sentence on how the run ended, and the exit status: 0 if the run ended as `how` asks. `dead_list` and
    `patient` are commands that the sentence may suggest."""
    letters = f"; {end.dead:,} dead, see {dead_list}" if end.dead else ""
    left = f"{end.aborted:,} message{'s' * (end.aborted != 1)} not done"
    if how == "now":
        return f"ended at once: {left}{letters}", 0
    if end.drained and end.clean:
        return f"drained: everything read is done; you can change the topology now{letters}", 0
    if end.drained:
        return (
            "drained: everything that this run has read is done, but some messages in flight of earlier runs may not "
            f"be done; a changed topology needs --accept-duplicates{letters}",
            0,
        )
    if end.ended == "failed":
        return f"has failed: {printable(end.problem or 'its log says why')}; {left}{letters}", 1
    if end.ended == "aborted":
        return f"was ended by force: {left}{letters}", 1
    return (
        f"stopped, but did not drain within its drain_timeout_s: {left}; the next run reads them again "
        f"({patient} waits for them){letters}",
        1,
    )
