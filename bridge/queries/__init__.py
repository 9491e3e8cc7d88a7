"""What a user declares of Spark in a topology: queries, windows, joins and tables.

`query.spark_query` is the general one; the others build on it. Must not import pyspark, nor know how a query runs.
"""
