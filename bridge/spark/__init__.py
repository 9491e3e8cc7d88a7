"""A Spark session on this machine or on a cluster: Java, the master, settings, class archives, and errors as sentences.

`session.start` starts one. Must not know queries.

Imports nothing of: bridge.queries, bridge.driver, bridge.handover, bridge.engine
"""
