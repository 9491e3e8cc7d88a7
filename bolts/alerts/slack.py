"""`Slack`: alerts as messages of a Slack channel. Knows incoming web hooks; must not know when one is sent."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from bolts.alerts.channel import HttpChannel, lines_of
from bolts.alerts.templates import Text, called, cut, encodable, text_maker
from bolts.sinks.http.client import HttpUrl
from bolts.sinks.http.parcels import HeldOutput
from bolts.sinks.http.retries import RETRIES, Retries
from bolts.sinks.values import BadValue, encode_json
from topology.clients.tls import Tls
from topology.secrets import Secret

TEXT_MAX: Final = 3_000  # characters of one alert that are shown
BLOCKS_MAX: Final = 50  # blocks of a message, as Slack has it

Blocks = Callable[[Any], Sequence[dict[str, Any]]]  # makes the blocks of a record


class Slack(HttpChannel):
    """Post each alert to the channel of an incoming web hook.

        topology.bolt("slack", Slack(url, text="*{service}* is {state}", group_by="service"), alerts.shuffle())

    url     https://hooks.slack.com/services/…, a Secret.
    text    A template, such as "{host} is {state}", or a function of the record, in Slack's mrkdwn. Values in a
            template are escaped, so no record can mention a channel or forge a link; a function escapes for itself.
    blocks  A function of the record that returns its blocks of Block Kit. Slack shows them in place of the text, which
            is left for notifications.
    group_by, group_wait_s, per_minute, retries, timeout_s  As in `AlertChannel`. Slack takes one message a second.
    tls     Certificates; None: those of the system.

    A message of several alerts has a line for each, of the first 20; then it says how many there are more. Raises
    ConfigurationError for an argument outside its limits.
    """

    def __init__(
        self,
        url: str | Secret,
        *,
        text: Text,
        blocks: Blocks | None = None,
        group_by: Text | None = None,
        group_wait_s: float = 0.0,
        per_minute: float | None = 60.0,
        retries: Retries = RETRIES,
        timeout_s: float = 30.0,
        tls: Tls | None = None,
    ) -> None:
        super().__init__(
            HttpUrl("Slack", Secret(url)),
            tls,
            group_by=group_by,
            group_wait_s=group_wait_s,
            per_minute=per_minute,
            retries=retries,
            timeout_s=timeout_s,
        )
        self._text = text_maker("Slack", "text", text, escape)
        self._blocks = blocks

    def _parts(self, output: HeldOutput) -> tuple[str, list[dict[str, Any]]]:
        blocks: list[dict[str, Any]] = []
        if self._blocks is not None:
            made = called("blocks", self._blocks, output.record)
            try:
                blocks = [*made]
                encode_json(blocks)
            except Exception as error:  # the user's objects may be of any type
                raise BadValue(f"its blocks are no JSON: {error}") from error
        return cut(encodable(self._text(output.record)), TEXT_MAX), blocks

    def body(self, outputs: Sequence[HeldOutput]) -> bytes:
        """Return the body of a message that has these alerts."""
        texts = [output.parts[0] for output in outputs]
        text = texts[0]
        if len(texts) > 1:
            text = "\n".join((f"*{len(texts):,} alerts*", *(f"• {line}" for line in lines_of(texts))))
        blocks = [block for output in outputs for block in output.parts[1]]
        if len(blocks) > BLOCKS_MAX:
            more = {"type": "mrkdwn", "text": f"… and more: {len(outputs):,} alerts in all"}
            blocks = [*blocks[: BLOCKS_MAX - 1], {"type": "context", "elements": [more]}]
        return encode_json({"text": text, "blocks": blocks} if blocks else {"text": text})


def escape(text: str) -> str:
    """Return a text as Slack shows it literally."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
