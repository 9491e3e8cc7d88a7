"""Processes as the operating system has them: how one is started, when it may restart, how it ended, what it printed.

Must not know what a process is for.
"""
