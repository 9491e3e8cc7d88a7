"""Topologies to run and to read, one idea per file. Each runs by itself: `kedge run examples/ssh_alerts.py`.

The wheel has them as the package `kedge_examples`, for `kedge demo`.
"""
