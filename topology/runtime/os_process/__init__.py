"""Processes as the operating system has them: how to start one, when it may restart, how it ended, what it printed.

Must not know what a process is for.
"""
