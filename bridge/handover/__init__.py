"""The hand-over: a bolt that writes records into segments for Spark, and a spout that reads the results back.

`bolt` stores, `store` and `rows` write segments, `dedup` drops a replay, `results` is the spout. Must not import
pyspark.
"""
