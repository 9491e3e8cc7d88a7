"""The catalogue of errors: every kind that Kedge reports, with its code, what it means, and what to do next.

One file for each group; `catalogue` has all of them. `kedge explain` and docs/reference/errors.md are made of it, and
each code is used at one place, which a test guards. Words only: must not know what raises them.
"""
