"""`kedge compare`: runs one topology on the same records in Kedge and in Spark's modes, and measures each result's
latency.

`command` reads the options, `workload` records a script of messages, `measure` runs each mode by `rounds`, `report`
shows the results. Starts real runs and measures them from outside. Must not know a run's insides, nor import pyspark.

Only jvm.driver imports: pyspark
Imports nothing of: topology.runtime.embedded, topology.runtime.worker, topology.storage, bridge.engine, bridge.handover
"""
