"""What another user of the machine finds who connects to the ports of a driver and its JVM (S27)."""

import socket
import threading
from typing import Any

import psutil
import pytest
from spark_kit import needs_spark

pytestmark = [needs_spark, pytest.mark.timeout(240)]

CALL = "c\np0\ncall\ni3\ne\n"  # py4j: a call of a function that was given to Spark, by its name there
TOKEN = "A\n{}\n"
WITHIN_S = 20.0


def said(port: int, sent: str) -> bytes:
    """What a stranger is answered, until the connection ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as connection:
        connection.sendall(sent.encode())
        answer = b""
        try:
            while part := connection.recv(4096):
                answer += part
        except ConnectionResetError:
            pass
        return answer


def callback_port(session: Any) -> int:
    port: int = session.sparkContext._gateway._callback_server.get_listening_port()
    return port


@pytest.mark.parametrize("sent", [CALL, TOKEN.format("a" * 64) + CALL, "\n" + CALL])
def test_a_stranger_can_call_no_function_of_the_driver(session: Any, sent: str) -> None:
    called: list[int] = []

    class Taking:
        def call(self, number: int) -> None:
            called.append(number)

        class Java:
            implements = ("java.lang.Runnable",)

    pool = session.sparkContext._gateway.gateway_property.pool
    name = pool.put(Taking())
    sent = sent.replace("p0", name)
    assert not said(callback_port(session), sent).startswith(b"!y"), "no call has gone well"
    assert not called


def test_the_jvm_calls_the_drivers_functions_all_the_same(session: Any, tmp_path: Any) -> None:
    taken, done = [], threading.Event()

    def take(frame: Any, batch: int) -> None:
        taken.append((batch, frame.count()))
        done.set()

    stream = session.readStream.format("rate").option("rowsPerSecond", 10).load()
    query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path)).start()
    try:
        assert done.wait(WITHIN_S * 3)
        assert query.exception() is None
    finally:
        query.stop()
    assert taken[0][0] == 0


def test_sparks_own_ports_ask_who_it_is(session: Any) -> None:
    """On this machine, with a secret that Spark draws."""
    assert session.sparkContext.getConf().get("spark.authenticate") == "true"


def test_all_that_listens_is_on_loopback(session: Any) -> None:
    java = session.sparkContext._gateway.proc.pid
    for process in (psutil.Process(), psutil.Process(java)):
        for one in process.net_connections("tcp"):
            if one.status == psutil.CONN_LISTEN:
                print(process.pid == java, one.laddr)
                assert one.laddr.ip in ("127.0.0.1", "::1", "::ffff:127.0.0.1")
