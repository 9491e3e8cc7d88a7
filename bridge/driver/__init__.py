"""The driver: a companion process that starts Spark and runs the queries of a topology.

Start at `main`. `source` reads segments, `stream_query` runs a query, `batch` keeps each batch's results once. Imported
only in the driver. Must not know the run, except for its folder.

Imports nothing of: topology.runtime, topology.storage, bridge.handover, bridge.engine, bridge.compare
"""
