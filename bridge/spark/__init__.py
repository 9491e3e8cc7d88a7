"""A Spark session, on this machine or a cluster: Java, the master, settings, archives of classes, and errors in words.

`session.start` starts one. Must not know queries.
"""
