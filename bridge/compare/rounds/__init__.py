"""One round of a mode: the run, its arrivals, its resources, its logs, and the verdict on it.

`kedge` runs a round of Kedge or of its engine on Spark. Must not know how results are shown.

Imports nothing of: bridge.compare.report, bridge.compare.command, matplotlib, rich
"""
