"""One server a file: how the benchmark of connectors fills it, and what plain client code reads and writes there.

The plain code is what a user of the client alone would write: batched where the client batches, confirmed as
the client's page says. Must not know how it is timed, nor Kedge's runtime.
"""
