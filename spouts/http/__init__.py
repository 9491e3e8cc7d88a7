"""Sources over HTTP: `ingest` takes messages that others post; `websocket` and `sse` take those of a server.

For `ingest`, `serving` is the server, `bodies` reads what it is sent, and `accepted` knows the messages that are under
way. For the other two, `sessions` makes connections; `event_stream` and `resume_point` are for `sse`. `own_ids` has
names for messages without one. aiohttp is an extra, imported when a source is opened. Must not know another protocol.

Imports nothing of: spouts.servers, spouts.file_tail, topology.runtime
"""
