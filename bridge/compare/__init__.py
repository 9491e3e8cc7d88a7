"""`kedge compare`: one topology, the same records, on Kedge and in Spark's modes, and how long each alert took.

Starts real runs, as `kedge run` does, and measures them from outside; imports no pyspark.
"""
