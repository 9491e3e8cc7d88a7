"""The catalogue of errors: every kind that Kedge tells of, with its code, what it means, and what to do next.

One file a group; `catalogue` has all of them. Pure: words only, and nothing of what raises them. `kedge explain` and
docs/reference/errors.md are made of it, and each code is used at one place, which a test guards.
"""
