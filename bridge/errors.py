"""The error that ends a run through Spark because a user has to fix something. Must not know Spark."""


class UserError(Exception):
    """What a user has to do something about, in a sentence: the run ends with it."""
