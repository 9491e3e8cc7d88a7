"""Spark: what needs a cluster is handed over here. Empty so far; the only package that will import pyspark."""
