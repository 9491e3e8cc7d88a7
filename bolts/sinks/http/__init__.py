"""Sinks that ask a receiver, by one request a record or a few, and wait for its answer: `WebHook`.

`delivering` holds records, repeats requests and acks, for any receiver; `client` is the one over HTTP. The channels of
`bolts.alerts` build on both. Must not know alerts, nor stores.

Imports nothing of: bolts.alerts, spouts, bridge, topology.runtime
Only client imports: topology.clients.extras
"""
