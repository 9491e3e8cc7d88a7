"""Bare asyncio: one task per stage, bounded queues between them, one process. Nothing is tracked, nothing is stored."""
