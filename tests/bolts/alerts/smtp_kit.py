"""A real SMTP server of a few lines for tests of `Email`: it keeps mails, and refuses those that a test names."""

import asyncio
import base64
import contextlib
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any, TypeAlias

# A reply in place of the usual one to a command: ("RCPT", "TO:<ann@example.org>") → "550 unknown"; None: the usual one.
Replies: TypeAlias = Callable[[str, str], str | None]


@dataclass(frozen=True)
class Mailed:
    """A mail that was taken."""

    sender: str
    recipients: tuple[str, ...]
    raw: bytes
    encrypted: bool
    user: str

    @property
    def message(self) -> EmailMessage:
        message = message_from_bytes(self.raw, policy=default)
        assert isinstance(message, EmailMessage)
        return message

    @property
    def text(self) -> str:
        return str(self.message.get_content()).replace("\r\n", "\n").rstrip("\n")


class SmtpServer:
    """A server on a port of 127.0.0.1, in a thread of its own. `context`: it offers STARTTLS, or speaks TLS at once if
    `at_once`. `users`: name → password, and a mail needs one of them. `hangs_at`: a command that is not answered."""

    def __init__(
        self, context: ssl.SSLContext | None = None, *, at_once: bool = False, users: dict[str, str] | None = None
    ) -> None:
        self.mails: list[Mailed] = []
        self.commands: list[tuple[str, str]] = []
        self.replies: Replies | None = None
        self.hangs_at = ""
        self.loses = 0  # answers to lose after a mail was taken
        self.port = 0
        self._context, self._at_once, self._users = context, at_once, users
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.start()

    def start(self) -> None:
        self._call(self._start())

    def stop(self) -> None:
        self._call(self._stop())

    @contextmanager
    def away(self) -> Iterator[None]:
        self.stop()
        try:
            yield
        finally:
            self.start()

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        context = self._context if self._at_once else None
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for task in (tasks := [*self._tasks]):
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await _Session(self, reader, writer).run()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()


class _Session:
    def __init__(self, server: SmtpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server, self.reader, self.writer = server, reader, writer
        self.encrypted = server._at_once
        self.user = self.sender = ""
        self.recipients: list[str] = []

    async def say(self, *lines: str) -> None:
        for line in lines[:-1]:
            self.writer.write(f"{line[:3]}-{line[4:]}\r\n".encode())
        self.writer.write(f"{lines[-1]}\r\n".encode())
        await self.writer.drain()

    async def run(self) -> None:
        await self.say(self._reply("CONNECT", "") or "220 here")
        while line := await self.reader.readline():
            name, _, rest = line.decode().rstrip("\r\n").partition(" ")
            name = name.upper()
            self.server.commands.append((name, rest))
            if name == self.server.hangs_at:
                await asyncio.sleep(60)
            if (reply := self._reply(name, rest)) is not None:
                await self.say(reply)
            elif name == "QUIT":
                await self.say("221 bye")
                return
            else:
                await getattr(self, f"on_{name.lower()}", self.on_unknown)(rest)

    def _reply(self, name: str, rest: str) -> str | None:
        return self.server.replies(name, rest) if self.server.replies is not None else None

    async def on_ehlo(self, rest: str) -> None:
        lines = ["250 here", "250 8BITMIME"]
        if self.server._context is not None and not self.encrypted:
            lines.append("250 STARTTLS")
        if self.server._users is not None:
            lines.append("250 AUTH PLAIN")
        await self.say(*lines)

    async def on_starttls(self, rest: str) -> None:
        await self.say("220 go")
        assert self.server._context is not None
        await self.writer.start_tls(self.server._context)
        self.encrypted = True

    async def on_auth(self, rest: str) -> None:
        _, user, password = base64.b64decode(rest.split()[1]).decode().split("\0")
        if (self.server._users or {}).get(user) != password:
            await self.say("535 no")
        else:
            self.user = user
            await self.say("235 yes")

    async def on_mail(self, rest: str) -> None:
        self.sender, self.recipients = rest[rest.index("<") + 1 : rest.index(">")], []
        needs = self.server._users is not None and not self.user
        await self.say("530 who are you" if needs else "250 ok")

    async def on_rcpt(self, rest: str) -> None:
        self.recipients.append(rest[rest.index("<") + 1 : rest.index(">")])
        await self.say("250 ok")

    async def on_data(self, rest: str) -> None:
        await self.say("354 go on")
        raw = await self.reader.readuntil(b"\r\n.\r\n")
        raw = raw.removesuffix(b".\r\n").replace(b"\r\n..", b"\r\n.")
        if (reply := self._reply("BODY", raw.decode("utf-8", "replace"))) is not None:
            await self.say(reply)
            return
        self.server.mails.append(Mailed(self.sender, tuple(self.recipients), raw, self.encrypted, self.user))
        if self.server.loses:
            self.server.loses -= 1
            self.writer.transport.abort()
            raise ConnectionAbortedError
        await self.say("250 taken")

    async def on_rset(self, rest: str) -> None:
        await self.say("250 ok")

    async def on_unknown(self, rest: str) -> None:
        await self.say("502 what")


@contextmanager
def smtp_server(
    context: ssl.SSLContext | None = None, *, at_once: bool = False, users: dict[str, str] | None = None
) -> Iterator[SmtpServer]:
    server = SmtpServer(context, at_once=at_once, users=users)
    try:
        yield server
    finally:
        server.close()


def certificate_in(folder: Path) -> tuple[str, ssl.SSLContext]:
    """The path of a certificate for localhost that it signs itself, and a server's context with it."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return str(certificate), context
