"""Identity: each line goes from a process by way of a second one to a third, which writes a JSON Lines file.

python -m benchmarks.peers.with_pyzmq.identity LINES OUT
"""

import sys
import tempfile
from multiprocessing import Event, Process
from multiprocessing.synchronize import Event as Done

import zmq

from benchmarks.peers.work import Text, to_json

END = b""  # a line has its line end, so no line is empty
AGAIN_MS = 1  # ms until a stage that has not bound yet is asked again; libzmq itself waits 0.1 to 0.2 s
# A sender stays until all is read: after an ipc peer is gone, libzmq drops the messages for which it had no room.


def source(path: str, to: str, done: Done) -> None:
    with zmq.Context() as context, context.socket(zmq.PUSH) as push, open(path, "rb") as lines:
        push.setsockopt(zmq.RECONNECT_IVL, AGAIN_MS)
        push.connect(to)
        for line in lines:
            push.send(line)
        push.send(END)
        done.wait()


def same(at: str, to: str, done: Done) -> None:
    with zmq.Context() as context, context.socket(zmq.PULL) as pull, context.socket(zmq.PUSH) as push:
        pull.bind(at)
        push.setsockopt(zmq.RECONNECT_IVL, AGAIN_MS)
        push.connect(to)
        while line := pull.recv():
            push.send(line)
        push.send(END)
        done.wait()


def sink(at: str, path: str, done: Done) -> None:
    with zmq.Context() as context, context.socket(zmq.PULL) as pull, open(path, "wb") as out:
        pull.bind(at)
        while line := pull.recv():
            out.write(to_json(Text(line.decode().removesuffix("\n"))) + b"\n")
        done.set()


if __name__ == "__main__":
    done = Event()
    with tempfile.TemporaryDirectory() as folder:
        lines, passed = f"ipc://{folder}/lines", f"ipc://{folder}/passed"
        stages = [
            Process(target=sink, args=(passed, sys.argv[2], done)),
            Process(target=same, args=(lines, passed, done)),
        ]
        for stage in stages:
            stage.start()
        source(sys.argv[1], lines, done)
        for stage in stages:
            stage.join()
