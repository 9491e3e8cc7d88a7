"""The error that ends a run through Spark because a user has to fix something. Must not know Spark."""


class UserError(Exception):
    """An error that a user has to fix. The message is one sentence, and the run ends with it."""
