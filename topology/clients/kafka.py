"""Connections to Kafka: the properties of librdkafka's clients, and what a cluster is asked beside messages.

Knows confluent-kafka; must not know messages, positions of a run, or what is read from where.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from topology.clients.errors import ServerAway, invalid, refused
from topology.clients.extras import client
from topology.clients.tls import Tls
from topology.errors import ConfigurationError
from topology.secrets import Secret, names_secret
from topology.text import printable

REQUEST_S: Final = 3.0  # seconds that a cluster has to answer a question
POLL_S: Final = 0.1  # seconds between two looks at what a client has to say while a question is open
RECONNECT_MS: Final = 2_000  # milliseconds between two tries of librdkafka's to connect to a broker, at most

Mechanism: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
Settings: TypeAlias = Mapping[str, Any]  # librdkafka's properties: texts, numbers, bools, Secrets, functions
Place: TypeAlias = tuple[str, int]  # topic, partition

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
BROKER: Final = re.compile(r"[^\s,@/]+")
TOPIC: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}\Z")
NO_ID: Final = "A" * 22  # the form of a topic id that is not there
GONE: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID", "TOPIC_EXCEPTION", "_UNKNOWN_TOPIC"})
FORBIDDEN: Final = frozenset(
    {
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "SASL_AUTHENTICATION_FAILED",
        "UNSUPPORTED_SASL_MECHANISM",
        "_AUTHENTICATION",
    }
)
OLD: Final = frozenset({"UNSUPPORTED_VERSION", "_UNSUPPORTED_FEATURE"})
_STATE: Final = re.compile(r" \(after \d+ms in state \w+(?:, \d+ identical error\(s\) suppressed)?\)")

log = logging.getLogger("kedge.kafka")


@dataclass(frozen=True)
class KafkaAccess:
    """The way to a cluster, checked."""

    needed_by: str
    brokers: str
    tls: Tls | None
    user: str | None
    password: Secret | None
    mechanism: str
    settings: Settings

    def make(self, kind: str, own: Mapping[str, Any]) -> Any:
        """Return a client: "Consumer", "Producer" or "admin.AdminClient". It connects in threads of its own.

        `own` are properties of this client; the user's settings come before them. Raises ConfigurationError for a
        missing library, and for properties that librdkafka does not take.
        """
        library = library_for(self.needed_by)
        module, _, name = kind.rpartition(".")
        found = _module(f"confluent_kafka.{module}", self.needed_by) if module else library
        try:
            return getattr(found, name)(self._properties(own))
        except (library.KafkaException, TypeError, ValueError) as error:
            reason = error.args[0].str() if isinstance(error, library.KafkaException) else str(error)
            text = f"{self.needed_by}: librdkafka refuses its settings: {self._without_secrets(reason)}"
            raise invalid(text) from None  # the error's frames have the passwords

    def _properties(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return all properties of a client, with its passwords in clear text."""
        made: dict[str, Any] = {
            "bootstrap.servers": self.brokers,
            "client.id": "kedge",
            "logger": ClientLog(),
            "reconnect.backoff.max.ms": RECONNECT_MS,
        }
        secured = "SSL" if self.tls is not None else "PLAINTEXT"
        if self.tls is not None:
            made |= _of_tls(self.tls)
        if self.user is not None:
            made |= {"sasl.mechanism": self.mechanism, "sasl.username": self.user}
            made["sasl.password"] = self.password.reveal() if self.password is not None else ""
            secured = f"SASL_{secured}"
        made["security.protocol"] = secured
        made |= own
        for name, value in self.settings.items():
            made[name] = value.reveal() if isinstance(value, Secret) else value
        return made

    def _without_secrets(self, text: str) -> str:
        hidden = [self.password, self.tls.password if self.tls is not None else None, *self.settings.values()]
        for secret in hidden:
            if isinstance(secret, Secret) and secret:
                text = text.replace(secret.reveal(), "…")
        return printable(text)


def library_for(needed_by: str) -> Any:
    """Import and return confluent_kafka. Raises ConfigurationError if it is not there."""
    return _module("confluent_kafka", needed_by)


def _module(name: str, needed_by: str) -> Any:
    return client(name, package="confluent-kafka", extra="kafka", needed_by=needed_by)


def access(
    needed_by: str,
    brokers: str,
    *,
    tls: Tls | None,
    user: str | None,
    password: "str | Secret | None",
    mechanism: str,
    settings: Settings | None,
    reserved: Iterable[str],
) -> KafkaAccess:
    """Return the way to a cluster. Raises ConfigurationError, which begins with `needed_by`, for arguments that do not
    fit, and for `settings` with a property in `reserved`."""
    if not isinstance(brokers, str) or not all(BROKER.fullmatch(part.strip()) for part in brokers.split(",")):
        raise invalid(f"{needed_by}: brokers is HOST:PORT, or several with commas between them, without a user")
    if mechanism not in MECHANISMS:
        text = f"{needed_by}: mechanism is {', '.join(MECHANISMS)}, not {mechanism!r:.80}; settings may name others"
        raise invalid(text)
    if (user is None) != (password is None):
        raise invalid(f"{needed_by}: user and password come together")
    for name in settings or {}:
        if name in reserved:
            raise invalid(f"{needed_by}: settings has {name}, which it sets itself")
    secret = Secret(password) if password is not None else None
    kept = {name: _hidden(name, value) for name, value in (settings or {}).items()}
    return KafkaAccess(needed_by, brokers, tls, user, secret, mechanism, kept)


def _hidden(name: str, value: Any) -> Any:
    """Return the value of a property, as a Secret if its name says so."""
    return Secret(value) if isinstance(value, str) and (names_secret(name) or name == "ssl.key.pem") else value


def topic_name(needed_by: str, name: object) -> str:
    """Return the name of a topic. Raises ConfigurationError for one that Kafka does not allow."""
    if isinstance(name, str) and TOPIC.match(name):
        return name
    raise invalid(
        f"{needed_by}: a topic's name has letters, digits, '.', '_' and '-', up to 249, and is not {name!r:.80}"
    )


def _of_tls(tls: Tls) -> dict[str, Any]:
    """Return the properties for these certificates."""
    made: dict[str, Any] = {}
    if tls.ca is not None:
        made["ssl.ca.location"] = tls.ca
    if tls.certificate is not None:
        made["ssl.certificate.location"] = tls.certificate
        made["ssl.key.location"] = tls.key or tls.certificate
    if tls.password is not None:
        made["ssl.key.password"] = tls.password.reveal()
    if not tls.check:
        made |= {"enable.ssl.certificate.verification": False, "ssl.endpoint.identification.algorithm": "none"}
    return made


class ClientLog:
    """The log of a client of librdkafka's, as lines of level debug: what matters of it comes as an error too."""

    def log(self, level: int, text: str, *values: object) -> None:
        """Log a line. Called by the thread that polls the client."""
        log.debug(text, *values)


class ClientErrors:
    """The errors that a client has told. `trouble` is the newest reason why brokers cannot be used, and `refusal` that
    why they refuse its user. `notify` is called for each, by the thread that polls the client."""

    def __init__(self, needed_by: str, notify: Callable[[], None] = lambda: None) -> None:
        self.trouble = self.refusal = ""
        self.all_down = False
        self._needed_by, self._notify = needed_by, notify

    def __call__(self, error: Any) -> None:
        """Take an error. It is the property `error_cb` of a client."""
        name = error.name()
        if name == "_ALL_BROKERS_DOWN":
            self.all_down = True
            self.trouble = self.trouble or said(error)
        elif name in ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"):
            self.refusal = said(error)
        else:
            self.trouble = said(error)
        self._notify()

    def forget(self) -> None:
        """Begin again: a broker has answered."""
        self.trouble = self.refusal = ""
        self.all_down = False


def said(error: Any) -> str:
    """Return an error of librdkafka's, for people."""
    return printable(_STATE.sub("", error.str()))


@dataclass(frozen=True)
class TopicFound:
    """A topic as a cluster has it. `id` is "" if the cluster is too old to name it."""

    name: str
    id: str
    partitions: Sequence[int]


class KafkaAdmin:
    """Questions to a cluster. Make it in a running loop. Each question takes REQUEST_S at most.

    Every method raises ServerAway if the cluster cannot answer now, and ConfigurationError if it refuses.
    """

    def __init__(self, access: KafkaAccess) -> None:
        self.where = access.brokers
        self._access = access
        self._errors = ClientErrors(access.needed_by)
        self._library = library_for(access.needed_by)
        self._module = _module("confluent_kafka.admin", access.needed_by)
        self._admin: Any = access.make("admin.AdminClient", {"error_cb": self._errors})

    def close(self) -> None:
        """Disconnect. Takes some milliseconds."""
        self._admin = None

    async def topics(self, names: Sequence[str]) -> dict[str, TopicFound]:
        """Return these topics. Does not make a topic. Raises ConfigurationError for one that is not there."""
        asked = self._admin.describe_topics(self._library.TopicCollection([*names]), request_timeout=REQUEST_S)
        found: dict[str, TopicFound] = {}
        for name, answer in zip(asked, await self._answers(asked.values()), strict=True):
            if _name_of(answer) in OLD:
                return await self._old_topics(names)
            described = self._checked(answer, f"topic {name!r}")
            own = str(described.topic_id)
            found[name] = TopicFound(name, "" if own == NO_ID else own, [each.id for each in described.partitions])
        return found

    async def _old_topics(self, names: Sequence[str]) -> dict[str, TopicFound]:
        """Ask a cluster that has no ids of topics."""
        loop = asyncio.get_running_loop()
        try:
            listed = await loop.run_in_executor(None, lambda: self._admin.list_topics(timeout=REQUEST_S))
        except self._library.KafkaException as error:
            raise self._away(error.args[0]) from error
        for name in names:
            if name not in listed.topics:
                raise self._missing(f"topic {name!r}")
        return {name: TopicFound(name, "", [*listed.topics[name].partitions]) for name in names}

    async def offsets(self, places: Iterable[Place], *, latest: bool, committed: bool = False) -> dict[Place, int]:
        """Return the oldest offset of each partition, or if `latest` the one that its next message gets. `committed`:
        the one after the last message that no open transaction may take back."""
        places = [*places]
        if not places:
            return {}
        spec = self._module.OffsetSpec.latest() if latest else self._module.OffsetSpec.earliest()
        level = self._library.IsolationLevel
        asked = self._admin.list_offsets(
            {self._library.TopicPartition(*place): spec for place in places},
            isolation_level=level.READ_COMMITTED if committed else level.READ_UNCOMMITTED,
            request_timeout=REQUEST_S,
        )
        found: dict[Place, int] = {}
        for each, answer in zip(asked, await self._answers(asked.values()), strict=True):
            name = f"{each.topic}/{each.partition}"
            offset = self._checked(answer, f"partition {name}").offset
            if offset < 0:  # what librdkafka gives, without an error, if the leader goes away meanwhile
                raise ServerAway(f"{self.where} can't be used: {name} has no leader that answers")
            found[each.topic, each.partition] = offset
        return found

    async def committed(self, group: str, places: Iterable[Place]) -> dict[Place, int]:
        """Return what the group has committed; partitions of which it has nothing are left out.

        A consumer asks, in a thread: what librdkafka's admin client asks of groups aborts the process if a broker goes
        away meanwhile (2.16: "eonce->refcnt > 0").
        """
        wanted = [self._library.TopicPartition(*place) for place in places]
        if not wanted:
            return {}
        self._errors.forget()
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(None, self._committed, group, wanted)
        except self._library.KafkaException as error:
            raise self._wrong(error.args[0], f"group {group!r}") from error
        for each in found:
            if each.error is not None:
                raise self._wrong(each.error, f"group {group!r}")
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def _committed(self, group: str, places: Sequence[Any]) -> list[Any]:
        """Ask, and wait for the answer."""
        consumer = self._access.make(
            "Consumer", {"group.id": group, "enable.auto.commit": False, "error_cb": self._errors}
        )
        try:
            found: list[Any] = consumer.committed([*places], REQUEST_S)
        finally:
            consumer.close()
        return found

    async def reached(self) -> None:
        """Return once a broker has answered."""
        asked = self._admin.describe_cluster(request_timeout=REQUEST_S)
        self._checked((await self._answers([asked]))[0], "cluster")

    # -- answers

    async def _answers(self, futures: Iterable["Future[Any]"]) -> list[Any]:
        """Wait for the answers. Each is a result or a KafkaException."""
        self._errors.forget()
        waiting = [asyncio.wrap_future(future) for future in futures]
        try:
            open_ones: set[Any] = {*waiting}
            while open_ones:
                _, open_ones = await asyncio.wait(open_ones, timeout=POLL_S)
                self._admin.poll(0)
                if self._errors.refusal:
                    raise refused(f"{self._access.needed_by}: {self.where} refuses its user: {self._errors.refusal}")
        finally:
            for future in waiting:
                future.cancel()
            answers = await asyncio.gather(*waiting, return_exceptions=True)
        return answers

    def _checked(self, answer: Any, what: str) -> Any:
        if isinstance(answer, self._library.KafkaException):
            raise self._wrong(answer.args[0], what) from answer
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _wrong(self, error: Any, what: str) -> Exception:
        return error_for(self._access, error, what, self._errors.trouble)

    def _missing(self, what: str) -> ConfigurationError:
        return _missing(self._access, what)

    def _away(self, error: Any) -> ServerAway:
        return ServerAway(f"{self.where} can't be used: {self._errors.trouble or said(error)}")


def error_for(access: KafkaAccess, error: Any, what: str, trouble: str = "") -> Exception:
    """Return what an error of librdkafka's about `what` means: ConfigurationError if it is missing or forbidden, else
    ServerAway. `trouble`: a better reason why the brokers cannot be used."""
    name = error.name()
    if name in GONE:
        return _missing(access, what)
    if name in FORBIDDEN:
        return refused(f"{access.needed_by}: {access.brokers} refuses {what}: {said(error)}")
    return ServerAway(f"{access.brokers} can't be used: {trouble or said(error)}")


def _missing(access: KafkaAccess, what: str) -> ConfigurationError:
    return refused(f"{access.needed_by}: there is no {what} at {access.brokers}")


def _name_of(answer: Any) -> str:
    """Return the name of the error of an answer; "" if it is none."""
    error: Any = answer.args[0] if isinstance(answer, Exception) and answer.args else None
    return str(error.name()) if hasattr(error, "name") else ""
