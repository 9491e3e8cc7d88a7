"""The part that all channels share: what an alert becomes, groups, limits; and requests, for those over HTTP.

Must not know any service.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypedDict

from typing_extensions import Unpack

from bolts.alerts.grouping import AlertGroups
from bolts.alerts.templates import Text, name_maker
from bolts.sinks.http.client import HttpClient, HttpUrl, merged_headers
from bolts.sinks.http.delivering import DeliveringSink
from bolts.sinks.http.parcels import Gathering, HeldOutput
from bolts.sinks.http.requests import Receiver
from bolts.sinks.http.retries import RETRIES, Retries, check_seconds
from bolts.sinks.publishing.bodies import BodyEncoder
from bolts.sinks.values import BadValue
from topology.clients.errors import invalid
from topology.clients.tls import Tls
from topology.components import Task
from topology.core.tuples import Tuple
from topology.records import Record
from topology.secrets import Secret

UNDER_WAY_MAX: Final = 4  # messages of a channel, each of another group
GROUP_WAIT_MAX_S: Final = 3_600.0
PER_MINUTE_MAX: Final = 10_000
MINUTE_S: Final = 60.0
LINES_MAX: Final = 20  # alerts that a message shows; of the others it says how many


class Sending(TypedDict, total=False):
    """Options of channels, as `AlertChannel` explains them."""

    group_by: Text | None
    group_wait_s: float
    per_minute: float | None
    retries: Retries
    timeout_s: float


class AlertChannel(DeliveringSink):
    """A channel of alerts.

    group_by      A field, a template or a function of the record: alerts for which it is the same are one message, if
                  they come together. None: each alert is a message.
    group_wait_s  Seconds that the first alert of a group waits for others. 0: none waits.
    per_minute    Messages in any 60 seconds at most, of each task; None: no limit. What exceeds waits, and is summed up
                  in the next message.
    retries       For how long a message is sent again.
    timeout_s     Seconds that an answer may take.

    An alert is acked when the channel has taken the message that it is in. After a crash or a lost answer a message may
    be sent again, and alerts may be grouped otherwise. So a channel may tell the same twice, and drops nothing.
    """

    merges: ClassVar[bool] = True

    def __init__(
        self,
        *,
        group_by: Text | None = None,
        group_wait_s: float = 0.0,
        per_minute: float | None = 60.0,
        retries: Retries = RETRIES,
        timeout_s: float = 30.0,
    ) -> None:
        kind = type(self).__name__
        check_seconds(kind, "timeout_s", timeout_s, above=0)
        check_seconds(kind, "group_wait_s", group_wait_s)
        if group_wait_s > GROUP_WAIT_MAX_S:
            raise invalid(f"{kind}: group_wait_s is at most {GROUP_WAIT_MAX_S:,.0f} seconds, not {group_wait_s!r}")
        if group_wait_s and group_by is None:
            raise invalid(f"{kind}: group_wait_s needs group_by: alerts of which group wait for each other?")
        is_rate = isinstance(per_minute, int | float) and not isinstance(per_minute, bool)
        if per_minute is not None and (not is_rate or not 0 < per_minute <= PER_MINUTE_MAX):
            raise invalid(
                f"{kind}: per_minute is a number of messages up to {PER_MINUTE_MAX:,}, or None, not {per_minute!r:.80}"
            )
        rate = None if per_minute is None else (float(per_minute), MINUTE_S)
        super().__init__(concurrency=UNDER_WAY_MAX, retries=retries, rate=rate)
        self.group_wait_s, self.timeout_s = group_wait_s, timeout_s
        self._group_of = None if group_by is None else name_maker(kind, "group_by", group_by, empty=True)
        self._encoder = BodyEncoder()

    @abstractmethod
    def _parts(self, output: HeldOutput) -> Any:
        """Return what a message says of this alert. May set the output's group and kind. Raises BadValue."""

    def _make_gathering(self) -> Gathering:
        return AlertGroups(self.group_wait_s, self.merges)

    def _output(self, tup: Tuple[Record]) -> HeldOutput:
        refused: dict[int, str] = {}
        made = self._encoder.messages([tup], refused)
        if not made:
            raise BadValue(refused[0])
        output = HeldOutput(made[0][1].key, made[0][1].body, tup.record)
        output.group = output.key if self._group_of is None else self._group_of(tup.record)
        output.parts = self._parts(output)
        return output


class HttpChannel(AlertChannel):
    """A channel over HTTP. A subclass makes the body of a message. `hidden`: secrets that bodies have."""

    hidden: tuple[Secret, ...] = ()

    durability: ClassVar[str] = "an answer of the service that says yes"

    def __init__(
        self, url: HttpUrl, tls: Tls | None, headers: Mapping[str, Secret] | None = None, **sending: Unpack[Sending]
    ) -> None:
        super().__init__(**sending)
        self.url, self.headers, self.tls = url, headers or {}, tls

    @abstractmethod
    def body(self, outputs: Sequence[HeldOutput]) -> bytes:
        """Return the body of a message that has these alerts."""

    def _make_receiver(self, task: Task) -> Receiver:
        return _Service(self, task)


class _Service:
    """See `Receiver`."""

    def __init__(self, channel: HttpChannel, task: Task) -> None:
        kind, concurrency = type(channel).__name__, channel.concurrency
        timeout_s, tls = channel.timeout_s, channel.tls
        self._client = HttpClient(
            kind, channel.retries, task.clock, timeout_s=timeout_s, concurrency=concurrency, tls=tls
        )
        self._channel = channel
        self.where = channel.url.where

    async def open(self) -> None:
        self._client.open()

    async def deliver(self, outputs: Sequence[HeldOutput], key: str) -> None:
        channel = self._channel
        headers = merged_headers({"Content-Type": "application/json", "Idempotency-Key": key}, channel.headers)
        await self._client.post(channel.url, channel.body(outputs), headers, channel.hidden)

    async def close(self) -> None:
        await self._client.close()


def lines_of(texts: Sequence[str]) -> list[str]:
    """Return the texts of a message, and how many there are more."""
    more = len(texts) - LINES_MAX
    return [*texts] if more <= 0 else [*texts[:LINES_MAX], f"… and {more:,} more"]
