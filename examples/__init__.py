"""Topologies to run and to read, one idea a file; each runs by itself: `kedge run examples/ssh_alerts.py`.

The wheel has them as the package `kedge_examples`, for `kedge demo`.
"""
