"""`kedge compare`: one topology, the same records, in Kedge and in Spark's modes, and how long each alert took.

`command` reads the options, `workload` records a script of messages, `measure` runs each mode by `rounds`, `report`
shows the results. Starts real runs and measures them from outside. Must not know a run's insides, nor import pyspark.
"""
