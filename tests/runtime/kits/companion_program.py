"""What the companions of `test_companions` are: a program that does one thing well, or goes wrong in one way.

    companion_program.py WHAT FOLDER

Its process, and one that it starts itself, are written into the file FOLDER/pids, a line each life.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

what, folder = sys.argv[1], Path(sys.argv[2])
given = sys.stdin.read()


def say(line: str) -> None:
    print(line, flush=True)


def ending(*_: object) -> None:
    (folder / "asked-to-end").touch()
    sys.exit(0)


if what == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, ending)
child = subprocess.Popen(["sleep", "1000"])  # inherits the stubbornness
with (folder / "pids").open("a") as pids:
    pids.write(f"{os.getpid()} {child.pid}\n")
if what == "silent":
    say("this line is none of the three words")
else:
    say(f"status given {given} in {os.environ['WHERE']}")
    say("ready")
if what == "dying":
    for number in range(30):
        print(f"line {number} of its trouble", file=sys.stderr)
    sys.exit(3)
if what == "dying once" and not (folder / "died").exists():
    (folder / "died").touch()
    print("the first one had trouble", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
if what == "failing":
    say("failed there is no Java: install one\x1b[31m")
if what == "done":
    child.kill()
    child.wait()
    sys.exit(0)
if what == "chatty":
    for _ in range(9 * 64):
        sys.stderr.write("x" * 15_999 + "\n")
    sys.stderr.flush()
    (folder / "all-written").touch()
(folder / "settled").touch()
while True:
    time.sleep(1)
