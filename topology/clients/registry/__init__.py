"""A schema registry: payloads with the id of their schema in front, in Avro, JSON Schema or Protobuf.

`registry.SchemaRegistry` is what users declare. `values` is its side of sources, `bodies` that of sinks, `schemas`
keeps what was fetched, and `client` asks the registry. One format a file. Must not know Kafka, sources or sinks.

Imports nothing of: topology.runtime, topology.components, topology.core, topology.clients.kafka
Only objects imports: msgspec
"""
