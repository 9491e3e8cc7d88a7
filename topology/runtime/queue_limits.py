"""Bounds of the queue of a task, on any worker. Only values."""

from typing import Final

QUEUE_HIGH: Final = 1024  # tuples that wait for a task; above this number, the spouts that feed the task pause
QUEUE_LOW: Final = 512  # at this number, the spouts resume
