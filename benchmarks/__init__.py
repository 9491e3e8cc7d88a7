"""Benchmarks: throughput and latency, each a table for people and, with --json, one object. Not installed."""
