"""Parts of sources that take bytes as they come: lines out of a stream, a bounded queue, and ids for what comes once.

`cutter` cuts a stream into lines, `line_payloads` makes records of them, `inbox` holds what is not emitted yet, and
`lives` names a life of a source. Must not know files, sockets or any protocol.

Imports nothing of: spouts.file_tail, spouts.broker, topology.runtime, socket, threading
"""
