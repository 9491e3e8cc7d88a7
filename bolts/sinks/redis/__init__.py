"""`RedisSink`: records as entries of a stream, as hashes, or as messages of a channel of Redis.

`sink` has the arguments, `publisher` sends to streams and channels, and `hashes` stores hashes. Both use `calls`, and
the scripts of `scripts`, which Redis runs. Redis's client is an extra, imported when a sink is opened. Must not know
other servers.

Imports nothing of: bolts.sinks.servers, spouts, bridge, topology.runtime
"""
