"""`HttpRefusal`: why a request is not taken, as its answer says it. Values; must not know a server."""

from collections.abc import Mapping
from typing import Any


class HttpRefusal(Exception):
    """The answer to a request of which nothing is taken, or that waits in vain.

    status   Of the answer, such as 400.
    text     The reason, for people, without secrets.
    fields   Further fields of the answer's JSON object.
    headers  Further headers of the answer.
    """

    def __init__(
        self,
        status: int,
        text: str,
        fields: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(text)
        self.status, self.text = status, text
        self.fields, self.headers = dict(fields or {}), dict(headers or {})
