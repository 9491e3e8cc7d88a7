"""`KafkaSink`: records as messages of Kafka's topics.

`sink` has the arguments, and `publisher` the producer. confluent-kafka is an extra, imported when a sink is opened.
Must not know other servers.

Imports nothing of: bolts.sinks.servers, spouts, bridge, topology.runtime
"""
