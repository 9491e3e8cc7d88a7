"""The exception for a check that a subject of a conformance suite does not support."""


class LeftOut(Exception):
    """This subject does not support a check; the text says what is missing."""
