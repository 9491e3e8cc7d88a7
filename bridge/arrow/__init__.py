"""Convert records to Arrow columns and back. Must not know Spark, nor where columns are stored.

Imports nothing of: pyspark, bridge.files, bridge.handover, bridge.driver, bridge.spark
"""
