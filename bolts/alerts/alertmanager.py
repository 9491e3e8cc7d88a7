"""`Alertmanager`: alerts to Prometheus's Alertmanager. Knows its API v2; must not know when alerts are sent."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from bolts.alerts.channel import HttpChannel
from bolts.alerts.templates import MakesText, Text, encodable, text_maker, value_of
from bolts.sinks.http.client import HttpUrl, checked_headers
from bolts.sinks.http.parcels import HeldOutput
from bolts.sinks.http.retries import RETRIES, Retries
from bolts.sinks.values import BadValue, encode_json
from topology.clients.errors import invalid
from topology.clients.tls import Tls
from topology.secrets import Secret

PATH: Final = "/api/v2/alerts"
LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")

When = str | Callable[[Any], "datetime | None"]  # a field with a time, or a function of the record


class Alertmanager(HttpChannel):
    """Send each alert to an Alertmanager, which groups, silences and routes it.

        labels = {"alertname": "HostDown", "host": "{host}", "severity": "critical"}
        alertmanager = Alertmanager("http://127.0.0.1:9093", labels=labels, ends_at=lambda host: host.up_at)

    Labels name an alert. **It is resolved at `ends_at`. Without, it is resolved if it was not sent again for
    `resolve_timeout`, five minutes in Alertmanager's default settings.** This sink sends a record once. So give
    `ends_at`: the end, if it is known; else a time until which the alert stays, unless a record ends it before.

    Alerts that wait together are sent by one request, up to 100.

    url          http://HOST:PORT; a Secret, if it has a password. The path is added.
    labels       Label → a template or a function of the record. `alertname` has to be there. Labels whose text is empty
                 are left out.
    annotations  Likewise: texts for people, that do not name the alert.
    starts_at    A field with a time, or a function that returns one or None. None: Alertmanager's own clock.
    ends_at      Likewise.
    generator_url  A template or a function: a link to what has raised the alert.
    headers      More headers. Values may be Secrets.
    per_minute, retries, timeout_s  As in `AlertChannel`.
    tls          Certificates; None: those of the system for https://.

    Raises ConfigurationError for an argument outside its limits.
    """

    def __init__(
        self,
        url: str | Secret,
        *,
        labels: Mapping[str, Text],
        annotations: Mapping[str, Text] | None = None,
        starts_at: When | None = None,
        ends_at: When | None = None,
        generator_url: Text | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        per_minute: float | None = None,
        retries: Retries = RETRIES,
        timeout_s: float = 30.0,
        tls: Tls | None = None,
    ) -> None:
        kind = "Alertmanager"
        more = checked_headers(kind, headers)
        super().__init__(_of_the_api(kind, url), tls, more, per_minute=per_minute, retries=retries, timeout_s=timeout_s)
        if "alertname" not in labels:
            raise invalid(f"{kind}: labels has alertname, which names the kind of the alert")
        self._labels, self._annotations = (
            _makers(kind, "labels", labels),
            _makers(kind, "annotations", annotations or {}),
        )
        self._times = {"startsAt": ("starts_at", starts_at), "endsAt": ("ends_at", ends_at)}
        self._generator = None if generator_url is None else text_maker(kind, "generator_url", generator_url)

    def _parts(self, output: HeldOutput) -> dict[str, Any]:
        output.group, record = "", output.record
        alert: dict[str, Any] = {
            "labels": {name: text for name, make in self._labels.items() if (text := encodable(make(record)))},
            "annotations": {name: encodable(make(record)) for name, make in self._annotations.items()},
        }
        if not alert["labels"].get("alertname"):
            raise BadValue("its label alertname is empty")
        for key, (name, given) in self._times.items():
            at = None if given is None else value_of(name, given, record)
            if at is not None:
                if not isinstance(at, datetime) or at.tzinfo is None:
                    raise BadValue(f"its {name} is a time with a zone, not {at!r:.80}")
                alert[key] = at.isoformat()
        if self._generator is not None:
            alert["generatorURL"] = encodable(self._generator(record))
        return alert

    def body(self, outputs: Sequence[HeldOutput]) -> bytes:
        """Return the array of these alerts."""
        return encode_json([output.parts for output in outputs])


def _of_the_api(kind: str, url: str | Secret) -> HttpUrl:
    """Return the address of the API, for that of the server or its own."""
    HttpUrl(kind, url)
    parts = urlsplit(Secret(url).reveal())
    path = parts.path.rstrip("/")
    whole = urlunsplit(parts._replace(path=path if path.endswith(PATH) else path + PATH))
    return HttpUrl(kind, Secret(whole) if isinstance(url, Secret) else whole)


def _makers(kind: str, name: str, given: Mapping[str, Text]) -> dict[str, MakesText]:
    for each in given:
        if not isinstance(each, str) or not LABEL.match(each):
            raise invalid(f"{kind}: {name} have names of letters, digits and _, not {each!r:.80}")
    return {each: text_maker(kind, f"{name}[{each!r}]", text) for each, text in given.items()}
