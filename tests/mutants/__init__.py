"""Mutants: each breaks one rule in the shipped code by a small patch, and a named test has to turn red.

`make mutants`, or `python -m tests.mutants [RULE …] [--list]`. The mutants are data, by the letter of their rule; the
running of them knows nothing of rules.
"""
