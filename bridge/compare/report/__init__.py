"""The report of a comparison: the live table, the final table, plots and a page. Must not measure anything.

Imports nothing of: bridge.compare.measure, bridge.compare.rounds, psutil, subprocess
"""
