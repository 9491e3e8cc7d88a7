"""The files that a run and its driver share: segments, batches of results, leases, and what a query has started.

Each is written once, whole, and renamed. Must not know Spark.
"""
