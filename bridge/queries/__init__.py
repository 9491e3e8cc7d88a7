"""The declarations of Spark in a topology: queries, windows, joins and tables.

`query.spark_query` is the general one; the others build on it. They import pyspark when a query is made, in the driver.
Must not know how a query runs.

Imports nothing of: bridge.driver, bridge.engine, bridge.spark
"""
