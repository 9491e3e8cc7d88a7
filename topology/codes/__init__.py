"""The catalogue of errors: every kind that Kedge reports, with its code, what it means, and what to do next.

Each group has a file, and `catalogue` lists all codes. `kedge explain` and docs/reference/errors.md are generated from
the catalogue. Each code is used at one place; a test checks that. Text only: must not know which code raises the
errors.

Imports nothing of: topology, acker
"""
