"""Bare asyncio: a task a stage, bounded queues between them, one process. Nothing is followed, nothing is kept."""
