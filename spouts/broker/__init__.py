"""The common part of sources on a server: the connection, its retries, and the confirmation of messages.

`connection.Connection` is what one protocol implements; `source.BrokerSource` does the rest. Must not know any
protocol.

Imports nothing of: spouts.file_tail, topology.runtime, socket
"""
