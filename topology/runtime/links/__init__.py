"""Links between workers: sessions, frames and queues, in memory or over ZeroMQ.

`peers.Peers` holds one `peer` for each worker; `codec` makes bytes of a frame, `carrier` and `zeromq` take it over.
Must not know tasks beyond their queues, nor what a tuple means.
"""
