"""`ParquetSink` on a server of S3's protocol, by pyarrow's own client: the suite, restarts, and what it says."""

import asyncio
import secrets
import time
from collections.abc import Iterator

import pyarrow.fs as fs
import pytest
from parquet_kit import LineToObjects, ObjectServer, ObjectSubject, url_of

from bolts.sinks.parquet.sink import ParquetSink
from topology.errors import ConfigurationError, NotYet
from topology.secrets import Secret
from topology.testing.sinks import SINK_CHECKS, check_sink
from topology.testing.sinks.driver import RecordedAnswers, SinkItem, delivery, feed, give, item, opened

pytestmark = pytest.mark.service("s3")


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with ObjectServer.there() as one:
        yield one


@pytest.fixture
def subject(server: ObjectServer) -> Iterator[ObjectSubject]:
    bucket = f"kedge-{secrets.token_hex(6)}"
    server.make_bucket(bucket)
    one = ObjectSubject(bucket, server.port)
    one.proxy = LineToObjects(server.port)
    yield one
    one.proxy.close()


@pytest.mark.parametrize("check", SINK_CHECKS)
def test_the_sink_keeps_the_contract_on_objects(check: str, subject: ObjectSubject) -> None:
    if left_out := check_sink(check, subject):
        assert "upsert" in left_out or "lost" in left_out or "one task" in left_out, left_out
        pytest.skip(left_out)


async def test_a_filesystem_of_the_users_own_is_used(subject: ObjectSubject) -> None:
    def make() -> fs.FileSystem:
        return fs.S3FileSystem(
            access_key="someone",
            secret_key="secret",
            endpoint_override=f"127.0.0.1:{subject.proxy.port}",
            scheme="http",
            region="us-east-1",
        )

    path = f"{subject.bucket}/lake/items"
    for _ in range(2):
        async with opened(ParquetSink(path, filesystem=make)) as sink:
            await feed(sink, [delivery(item(number)) for number in range(5)])
            (said,) = sink.summary()
            assert path in said
    assert sorted(number for number, _ in subject.rows()) == [0, 1, 2, 3, 4]


async def test_what_is_wrong_is_said_in_one_sentence_without_the_password(subject: ObjectSubject) -> None:
    wrong = {
        url_of("no-such-bucket", subject.port): "there is no bucket 'no-such-bucket' for s3://no-such-bucket/lake",
        "s3://someone:secret-canary@": "is no URL of a store of objects",
        "nowhere://someone:secret-canary@bucket/path": "is no URL of a store of objects",
    }
    for url, words in wrong.items():
        with pytest.raises(ConfigurationError) as caught:
            async with opened(ParquetSink(Secret(url))):
                pass
        text = str(caught.value).partition("\n  next:")[0]
        assert text.startswith("ParquetSink: ")
        assert words in text
        assert "canary" not in text
        assert "\n" not in text


async def test_a_server_that_is_away_is_waited_for_at_the_start(subject: ObjectSubject) -> None:
    with subject.away(), pytest.raises(NotYet) as caught:
        async with opened(subject.make()):
            pass
    assert str(caught.value).startswith("ParquetSink: s3://")
    assert "canary" not in str(caught.value)


async def test_a_file_that_is_uploaded_in_parts_is_whole(subject: ObjectSubject) -> None:
    long = [SinkItem(number, 1, secrets.token_hex(400_000), 0.0) for number in range(20)]
    async with opened(subject.make()) as sink:
        out = await feed(sink, [delivery(record) for record in long])
    assert len(out.acked) == 20
    assert [row["text"] for row in subject.all_rows()] == [record.text for record in long]


async def test_closing_waits_for_one_request_to_a_server_that_swallows_everything(subject: ObjectSubject) -> None:
    out = RecordedAnswers()
    async with opened(subject.make()) as sink:
        await feed(sink, [delivery(item(1))])
        subject.proxy.swallows = True
        await give(sink, [delivery(item(2))], out)
        await asyncio.sleep(0.3)
        started = time.monotonic()
    assert time.monotonic() - started < 15, "one request is waited for, and no other"
    assert len(out.failed) == 1
    subject.proxy.swallows = False
    async with opened(subject.make()) as sink:
        await feed(sink, [delivery(item(number)) for number in (1, 2)])
    assert sorted(number for number, _ in subject.rows()) == [1, 2]
