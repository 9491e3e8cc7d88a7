"""K9xx: sources and sinks that talk to a server, or are one (ConfigurationError, StartError). Text only."""

from typing import Final

from topology.codes.code import Code

CLIENT_NOT_INSTALLED: Final = Code(
    "K901",
    "Client library is missing",
    "A source or sink for a server needs a client library, which is an extra of Kedge.",
    "run the pip command that the message names.",
)
INVALID_TLS: Final = Code(
    "K902",
    "Certificate cannot be used",
    "A file that Tls(…) names is missing, is no PEM, or does not fit the others.",
    "fix the file that the message names.",
)
INVALID_PAYLOAD_CLASS: Final = Code(
    "K903",
    "Payload cannot become this record",
    "A source decodes each payload into the record class that `value` names. The class, its `fields`, `at` and `id` "
    "have to fit each other and the source.",
    "fix the argument that the message names.",
)
INVALID_CONNECTOR: Final = Code(
    "K904",
    "Invalid argument of a source or sink",
    "A number, name or address of a source or sink is outside its limits.",
    "fix the argument that the message names.",
)
SERVER_AWAY: Final = Code(
    "K905",
    "Server cannot be reached",
    "A source or sink waits for its server: it does not answer, or it refuses connections. Kedge asks again until it "
    "answers; nothing is lost.",
    "start the server, or fix the address. The time limit for the start is start_timeout_s.",
)
SERVER_REFUSED: Final = Code(
    "K906",
    "Server refuses this source or sink",
    "The server has answered, and refuses: a wrong password, a missing right, or a stream, queue or table that is not "
    "there or is of another kind.",
    "fix what the message names, here or on the server.",
)
