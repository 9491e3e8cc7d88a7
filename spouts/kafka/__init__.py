"""`KafkaSource`: topics of Kafka as a source, which keeps its positions itself.

`planner` decides which partitions a task reads and where each begins. `reader` is the thread that consumes them, and
`source` gives what has come. confluent-kafka is an extra, imported when a source is opened. Must not know other
servers.

Imports nothing of: spouts.servers, spouts.broker.source, spouts.file_tail, topology.runtime
"""
