"""Streams and keys of a real Redis, for tests: filled, looked at and deleted, each by a connection of its own."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import urlsplit

import redis
from answers_proxy import AnswersProxy

from bolts.sinks.redis.sink import RedisSink
from spouts.servers.redis import RedisStreamSource
from topology.testing.sinks import SinkSubject
from topology.testing.sources import SourceItem, SourceSubject

URL = os.environ.get("KEDGE_TEST_REDIS", "redis://127.0.0.1:6379")
PORT = urlsplit(URL).port or 6379


def reached() -> None:
    """Raises what keeps a client from connecting."""
    with client() as one:
        one.ping()


@contextmanager
def client(port: int = PORT) -> Iterator[Any]:
    with redis.Redis(port=port, socket_connect_timeout=3) as one:
        yield one


def deleted(part: str) -> None:
    """Deletes all keys that have this in their names."""
    with client() as one:
        keys = list(one.scan_iter(f"*{part}*", count=10_000))
        for first in range(0, len(keys), 10_000):
            one.unlink(*keys[first : first + 10_000])


class RedisSourceSubject(SourceSubject):
    tasks = 2

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.proxy: AnswersProxy | None = None

    def make(self) -> RedisStreamSource[SourceItem]:
        port = self.proxy.port if self.proxy is not None else PORT
        return RedisStreamSource(f"redis://127.0.0.1:{port}", self.stream, value=SourceItem)

    def put(self, numbers: Sequence[int]) -> None:
        with client() as one, one.pipeline(transaction=False) as pipe:
            for number in numbers:
                pipe.xadd(self.stream, {"data": self.payload(number)})
            pipe.execute()

    def put_bad(self) -> bytes:
        with client() as one:
            one.xadd(self.stream, {"data": b"no json"})
        return b"no json"

    @contextmanager
    def away(self) -> Iterator[None]:
        assert self.proxy is not None
        with self.proxy.away():
            yield

    def missing(self) -> RedisStreamSource[SourceItem]:
        return RedisStreamSource("redis://127.0.0.1:9", self.stream, value=SourceItem)

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "redis_kit:RedisSourceSubject", [self.stream]


class RedisSinkSubject(SinkSubject):
    tasks = 2

    def __init__(self, target: str, mode: Literal["append", "upsert"]) -> None:
        self.target, self.mode = target, mode
        self.ordered = mode == "append"
        self.proxy: AnswersProxy | None = None

    def make(self) -> RedisSink:
        url = f"redis://127.0.0.1:{self.proxy.port if self.proxy is not None else PORT}"
        if self.mode == "append":
            return RedisSink(url, self.target, batch=50)
        return RedisSink(url, self.target, kind="hash", key=("number",), revision="revision", batch=50)

    def rows(self) -> list[tuple[int, int]]:
        with client() as one:
            if self.mode == "append":
                found = [json.loads(fields[b"data"]) for _, fields in one.xrange(self.target)]
            else:
                found = [one.hgetall(key) for key in one.scan_iter(f"{self.target}:*", count=10_000)]
                found = [{name.decode(): value for name, value in row.items()} for row in found]
        return [(int(row["number"]), int(row["revision"])) for row in found]

    @contextmanager
    def away(self) -> Iterator[None]:
        assert self.proxy is not None
        with self.proxy.away():
            yield

    @contextmanager
    def lost_answer(self) -> Iterator[None]:
        assert self.proxy is not None
        with self.proxy.answers_lost():
            yield

    def elsewhere(self) -> tuple[str, Sequence[Any]]:
        return "redis_kit:RedisSinkSubject", [self.target, self.mode]
