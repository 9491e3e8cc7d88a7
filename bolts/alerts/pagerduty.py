"""`PagerDuty`: alerts as events of PagerDuty. Knows its Events API v2; must not know when one is sent."""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, Final

from bolts.alerts.channel import HttpChannel
from bolts.alerts.templates import Text, called, cut, encodable, name_maker, text_maker, value_of
from bolts.sinks.http.client import HttpUrl
from bolts.sinks.http.parcels import HeldOutput
from bolts.sinks.http.retries import RETRIES, Retries
from bolts.sinks.values import BadValue, encode_json
from topology.clients.errors import invalid
from topology.clients.tls import Tls
from topology.secrets import Secret

URL: Final = "https://events.pagerduty.com/v2/enqueue"  # that of the EU is https://events.eu.pagerduty.com/v2/enqueue
SEVERITIES: Final = ("critical", "error", "warning", "info")
SUMMARY_MAX: Final = 1_024  # characters, as PagerDuty has it
DEDUP_MAX: Final = 255


class PagerDuty(HttpChannel):
    """Send each alert to PagerDuty: it opens an incident, or resolves one.

        pagerduty = PagerDuty(
            routing_key, summary="{service} is {state}", source="{host}", dedup_key="{service}", resolves=is_up
        )

    Events of one `dedup_key` are sent in their order; those of one action that wait together are one event, that of the
    newest alert, which says how many they are.

    routing_key  The integration key of a service, a Secret.
    summary   A template, such as "{host} is {state}", or a function of the record. Cut after 1,024 characters.
    source    A template or a function: the machine or service that has the problem.
    severity  critical, error, warning or info, or a template or function that returns one.
    dedup_key  A field, a template or a function that names the incident. None: each alert opens one of its own.
    resolves  A field, or a function of the record, that is true if the alert resolves its incident. None: none does.
    details   A function of the record that returns a mapping. None: the record's fields.
    url       The address of the API, as for Europe.
    per_minute, retries, timeout_s  As in `AlertChannel`.
    tls       Certificates; None: those of the system.

    Raises ConfigurationError for an argument outside its limits.
    """

    merges: ClassVar[bool] = False

    def __init__(
        self,
        routing_key: str | Secret,
        *,
        summary: Text,
        source: Text,
        severity: Text = "error",
        dedup_key: Text | None = None,
        resolves: str | Callable[[Any], Any] | None = None,
        details: Callable[[Any], Mapping[str, Any]] | None = None,
        url: str | Secret = URL,
        per_minute: float | None = None,
        retries: Retries = RETRIES,
        timeout_s: float = 30.0,
        tls: Tls | None = None,
    ) -> None:
        kind = "PagerDuty"
        super().__init__(HttpUrl(kind, url), tls, per_minute=per_minute, retries=retries, timeout_s=timeout_s)
        self._routing_key = Secret(routing_key)
        self.hidden = (self._routing_key,)
        if not self._routing_key or not self._routing_key.reveal().isalnum():
            raise invalid(f"{kind}: routing_key is the integration key of a service, of letters and digits")
        if isinstance(severity, str) and "{" not in severity and severity not in SEVERITIES:
            raise invalid(f"{kind}: severity is one of {', '.join(SEVERITIES)}, not {severity!r:.80}")
        if resolves is not None and dedup_key is None:
            raise invalid(f"{kind}: resolves needs dedup_key, which names the incident that is resolved")
        self._summary, self._source = text_maker(kind, "summary", summary), text_maker(kind, "source", source)
        self._severity, self._resolves, self._details = text_maker(kind, "severity", severity), resolves, details
        self._dedup_key = None if dedup_key is None else name_maker(kind, "dedup_key", dedup_key)

    def _parts(self, output: HeldOutput) -> dict[str, Any]:
        record, resolves = output.record, self._resolves
        severity, source = self._severity(record), encodable(self._source(record))
        if severity not in SEVERITIES:
            raise BadValue(f"its severity is one of {', '.join(SEVERITIES)}, not {severity!r:.80}")
        if not source:
            raise BadValue("its source is empty")
        name = output.key if self._dedup_key is None else encodable(self._dedup_key(record))
        if len(name) > DEDUP_MAX:
            name = blake2b(name.encode(), digest_size=24).hexdigest()
        is_over = resolves is not None and bool(value_of("resolves", resolves, record))
        output.group, output.kind = name, "resolve" if is_over else "trigger"
        details = json.loads(output.body)
        if self._details is not None:
            made = called("details", self._details, record)
            try:
                details = dict(made)
                encode_json(details)
            except Exception as error:  # the user's objects may be of any type
                raise BadValue(f"its details are no JSON: {error}") from error
        return {
            "summary": encodable(self._summary(record)) or "(empty)",
            "source": source,
            "severity": severity,
            "custom_details": details,
        }

    def body(self, outputs: Sequence[HeldOutput]) -> bytes:
        """Return the event of these alerts."""
        newest, more = outputs[-1], f" (and {len(outputs) - 1:,} more)" if len(outputs) > 1 else ""
        summary = cut(newest.parts["summary"], SUMMARY_MAX - len(more)) + more
        return encode_json(
            {
                "routing_key": self._routing_key.reveal(),
                "event_action": newest.kind,
                "dedup_key": newest.group,
                "payload": {**newest.parts, "summary": summary},
            }
        )
