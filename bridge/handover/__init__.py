"""The hand-over: a bolt that writes records into segments for Spark, and a spout that reads the results back.

`bolt` is the sink, `store` and `rows` write segments, `dedup` drops replays, `results` is the spout. Must not import
pyspark.

Imports nothing of: pyspark, bridge.driver, bridge.queries, bridge.spark
"""
