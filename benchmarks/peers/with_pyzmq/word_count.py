"""Word count: one process reads, one splits, one counts and writes the counts at the end.

python -m benchmarks.peers.with_pyzmq.word_count LINES OUT
"""

import sys
import tempfile
from collections import Counter
from multiprocessing import Event, Process
from multiprocessing.synchronize import Event as Done

import zmq

from benchmarks.peers.work import Count, to_json, words

END = b""  # neither a line, which has its line end, nor a word is empty
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


def split(at: str, to: str, done: Done) -> None:
    with zmq.Context() as context, context.socket(zmq.PULL) as pull, context.socket(zmq.PUSH) as push:
        pull.bind(at)
        push.setsockopt(zmq.RECONNECT_IVL, AGAIN_MS)
        push.connect(to)
        while line := pull.recv():
            for word in words(line.decode()):
                push.send(word.encode())
        push.send(END)
        done.wait()


def count(at: str, path: str, done: Done) -> None:
    counts: Counter[bytes] = Counter()
    with zmq.Context() as context, context.socket(zmq.PULL) as pull:
        pull.bind(at)
        while word := pull.recv():
            counts[word] += 1
        done.set()
    with open(path, "wb") as out:
        for word, times in counts.items():
            out.write(to_json(Count(word.decode(), times)) + b"\n")


if __name__ == "__main__":
    done = Event()
    with tempfile.TemporaryDirectory() as folder:
        lines, said = f"ipc://{folder}/lines", f"ipc://{folder}/said"
        stages = [
            Process(target=count, args=(said, sys.argv[2], done)),
            Process(target=split, args=(lines, said, done)),
        ]
        for stage in stages:
            stage.start()
        source(sys.argv[1], lines, done)
        for stage in stages:
            stage.join()
