"""The schemas of messages, fetched before the messages are decoded. Knows a registry's values; must not know Kafka."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from spouts.broker.retries import ServerRetries
from topology.clients.registry.values import RegistryValue
from topology.components import Task


class MessageSchemas:
    """The schemas of one task's messages. `are_used`: whether payloads have any; if not, `open` and `fetch` do nothing.

    `set_away` receives the reason for which messages wait for the registry; "" once they do not.
    """

    def __init__(self, value: object) -> None:
        self._value = value if isinstance(value, RegistryValue) else None
        self.are_used = self._value is not None

    async def open(self, task: Task, set_away: Callable[[str], None]) -> None:
        """See whether the registry answers. Raises ServerAway, and ConfigurationError for what the user has to fix."""
        self._set_away = set_away
        self._retries = ServerRetries(task.component, task.random, set_away)
        if self._value is not None:
            await self._value.check()

    async def fetch(self, messages: Sequence[Any]) -> None:
        """Fetch the schemas of these messages that are not known. Waits for a registry that is away. Once it returns,
        the messages can be decoded, until the caller awaits again."""
        if self._value is None:
            return
        ids = self._value.ids(message.value() for message in messages)
        if not self._value.missing(ids):
            return
        try:
            await self._retries.ask(partial(self._value.fetch, ids))
        finally:
            self._set_away("")
