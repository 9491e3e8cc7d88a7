"""SSH alerts: one process reads, one finds failed logins, one counts them by address and writes bursts as JSON Lines.

python -m benchmarks.peers.with_pyzmq.ssh_alerts LINES OUT
"""

import sys
import tempfile
from collections import defaultdict
from multiprocessing import Event, Process
from multiprocessing.synchronize import Event as Done

import msgspec
import zmq

from benchmarks.peers.work import Attempts, Failure, failure, to_json

END = b""  # neither a line, which has its line end, nor a record is empty
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


def parse(at: str, to: str, done: Done) -> None:
    encode = msgspec.msgpack.Encoder().encode
    with zmq.Context() as context, context.socket(zmq.PULL) as pull, context.socket(zmq.PUSH) as push:
        pull.bind(at)
        push.setsockopt(zmq.RECONNECT_IVL, AGAIN_MS)
        push.connect(to)
        while line := pull.recv():
            if found := failure(line.decode()):
                push.send(encode(found))
        push.send(END)
        done.wait()


def detect(at: str, path: str, done: Done) -> None:
    decode = msgspec.msgpack.Decoder(Failure).decode
    attempts: defaultdict[str, Attempts] = defaultdict(Attempts)
    with zmq.Context() as context, context.socket(zmq.PULL) as pull, open(path, "wb") as out:
        pull.bind(at)
        while data := pull.recv():
            found = decode(data)
            if alert := attempts[found.source_ip].add(found):
                out.write(to_json(alert) + b"\n")
                out.flush()  # an alert must not wait
        done.set()


if __name__ == "__main__":
    done = Event()
    with tempfile.TemporaryDirectory() as folder:
        lines, failures = f"ipc://{folder}/lines", f"ipc://{folder}/failures"
        stages = [
            Process(target=detect, args=(failures, sys.argv[2], done)),
            Process(target=parse, args=(lines, failures, done)),
        ]
        for stage in stages:
            stage.start()
        source(sys.argv[1], lines, done)
        for stage in stages:
            stage.join()
