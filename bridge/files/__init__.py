"""The files that a run and its driver share: segments, batches of results, leases, and notes of started queries.

Each file is written once as a whole, then renamed to its name. Must not know Spark.

Imports nothing of: pyspark, bridge.driver, bridge.queries, bridge.spark
"""
