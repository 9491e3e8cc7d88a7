"""`WebHook`: records to an address, by HTTP POST. Knows requests and signatures; must not know when one is repeated."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from bolts.sinks.http.client import HttpClient, HttpUrl, checked_headers, merged_headers
from bolts.sinks.http.delivering import DeliveringSink
from bolts.sinks.http.parcels import Gathering, HeldOutput, InOrder
from bolts.sinks.http.requests import Receiver
from bolts.sinks.http.retries import RETRIES, Retries, check_seconds
from bolts.sinks.http.signing import keys_of, signed_headers
from bolts.sinks.publishing.bodies import Body, BodyEncoder
from bolts.sinks.values import BadValue
from topology.clients.errors import invalid
from topology.clients.tls import Tls
from topology.components import Task
from topology.core.tuples import Tuple
from topology.errors import ConfigurationError
from topology.records import Record
from topology.secrets import Secret

BATCH_MAX: Final = 500  # records of a request; half of those that a task holds
CONCURRENCY_MAX: Final = 100  # requests under way of a task
RATE_MAX: Final = 10_000.0  # requests a second


class WebHook(DeliveringSink):
    """POST each record to an address, and ack it when the answer is 2xx.

        topology.bolt("hook", WebHook("https://shop.example/hooks/orders"), orders.shuffle())

    The header `Idempotency-Key` has the record's key, which is the same if the record is sent again: after a lost
    answer, a crash or a replay. A receiver that drops what it knows by it gets each record exactly once; say so by
    `idempotent=True`.

    If the receiver does not answer, or by 408, 425, 429 or 5xx, the record is sent again; `retries` says for how long.
    While it is away for all, one request at a time asks whether it is back, and the sources pause. It may ask for time
    by `Retry-After`, 300 seconds at most. Any other answer refuses the record: its message becomes a dead letter, with
    the status and the first bytes of the answer.

    Requests are begun in the order of the records. Those that are under way together may arrive in another order, and
    one that fails is sent again later.

    If `url` is a function, each origin (scheme, host and port) is a receiver by itself: while one is away or asks for
    time, records for the others are sent. All receivers share `concurrency`, `rate` and the room for records that wait.

    A record whose receiver is away for `for_s` while others take theirs becomes a dead letter. If such records fill the
    room, those for others wait; that time counts too if the last that another receiver has said was an answer. Time
    that a receiver asks for does not count.

    url      http://HOST/PATH or https://, or a function of the record that returns it. A Secret is shown without its
             path.
    body     A function that makes the body of a record, as bytes or str. None: a JSON object.
    batch    Records of a request at most. With more than 1, a body is a JSON array; the key is that of the request, and
             other requests may be made of the same records after a crash.
    headers  More headers, but Host and those of the connection. Values may be Secrets.
    secret   Signs each request as Standard Webhooks does, by the headers webhook-id, webhook-timestamp and
             webhook-signature. `whsec_…`, or several, while a new one takes the place of an old one.
    concurrency  Requests under way at once.
    rate     Requests a second at most, or None.
    timeout_s  Seconds that an answer may take.
    retries  For how long and after which statuses a record is sent again.
    idempotent  True: the receiver drops a request whose key it knows, for at least `remembers_s` seconds.
    tls      Certificates; None: those of the system for https://.

    Raises ConfigurationError for an argument outside its limits.
    """

    durability: ClassVar[str] = "an answer of the receiver that says yes"

    def __init__(
        self,
        url: str | Secret | Callable[[Any], str | Secret],
        *,
        body: Body | None = None,
        batch: int = 1,
        headers: Mapping[str, str | Secret] | None = None,
        secret: str | Secret | Sequence[str | Secret] | None = None,
        concurrency: int = 8,
        rate: float | None = None,
        timeout_s: float = 30.0,
        retries: Retries = RETRIES,
        idempotent: bool = False,
        remembers_s: float = 86_400.0,
        tls: Tls | None = None,
    ) -> None:
        kind = type(self).__name__
        for name, value, most in (("batch", batch, BATCH_MAX), ("concurrency", concurrency, CONCURRENCY_MAX)):
            if type(value) is not int or not 1 <= value <= most:
                raise invalid(f"{kind}: {name} is a number from 1 to {most}, not {value!r:.80}")
        if rate is not None and (not isinstance(rate, int | float) or not 0 < rate <= RATE_MAX):
            raise invalid(f"{kind}: rate is a number of requests a second up to {RATE_MAX:,.0f}, not {rate!r:.80}")
        check_seconds(kind, "timeout_s", timeout_s, above=0)
        check_seconds(kind, "remembers_s", remembers_s, above=0)
        if idempotent and batch > 1:
            raise invalid(f"{kind}: idempotent=True needs batch=1: a receiver knows requests, and not their records")
        super().__init__(concurrency=concurrency, retries=retries, rate=None if rate is None else (float(rate), 1.0))
        self.url = url if callable(url) else HttpUrl(kind, url)
        self.headers, self.secret = checked_headers(kind, headers), keys_of(kind, secret)
        self.batch, self.timeout_s, self.tls = batch, timeout_s, tls
        self.drops_replays = bool(idempotent)
        self.remembers_s = remembers_s if idempotent else None
        self._encoder = BodyEncoder(body)

    def _make_receiver(self, task: Task) -> Receiver:
        return WebHookReceiver(self, task)

    def _make_gathering(self) -> Gathering:
        return InOrder(self.batch)

    def _output(self, tup: Tuple[Record]) -> HeldOutput:
        refused: dict[int, str] = {}
        made = self._encoder.messages([tup], refused)
        if not made:
            raise BadValue(refused[0])
        message = made[0][1]
        to = self._url_of(self.url, tup.record) if callable(self.url) else None
        return HeldOutput(message.key, message.body, tup.record, to=to, origin=to.origin if to is not None else "")

    def _url_of(self, function: Callable[[Any], Any], record: Record) -> HttpUrl:
        try:
            return HttpUrl("its url", function(record))
        except ConfigurationError as error:
            raise BadValue(str(error)) from None
        except Exception as error:  # the user's code may raise anything
            raise BadValue(f"its url could not be made: {type(error).__name__}: {error}") from error


class WebHookReceiver:
    """See `Receiver`."""

    def __init__(self, sink: WebHook, task: Task) -> None:
        kind = type(sink).__name__
        self._client = HttpClient(
            kind, sink.retries, task.clock, timeout_s=sink.timeout_s, concurrency=sink.concurrency, tls=sink.tls
        )
        self._sink, self._clock = sink, task.clock
        self.where = sink.url.where if isinstance(sink.url, HttpUrl) else "the records' addresses"

    async def open(self) -> None:
        """See `Receiver.open`. Asks nothing: a receiver that is away is found at the first record."""
        self._client.open()

    async def deliver(self, outputs: Sequence[HeldOutput], key: str) -> None:
        """See `Receiver.deliver`."""
        sink = self._sink
        body = outputs[0].body if sink.batch == 1 else b"[" + b",".join(output.body for output in outputs) + b"]"
        headers: dict[str, str | Secret] = {"Content-Type": "application/json", "Idempotency-Key": key}
        if sink.secret:
            headers |= signed_headers(sink.secret, key, int(self._clock.utc().timestamp()), body)
        url = sink.url if isinstance(sink.url, HttpUrl) else outputs[0].to
        await self._client.post(url, body, merged_headers(headers, sink.headers))

    async def close(self) -> None:
        """See `Receiver.close`."""
        await self._client.close()
