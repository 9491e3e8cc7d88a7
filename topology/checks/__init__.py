"""Checks of a declared graph before anything runs: its mistakes, its warnings, and what each sink is guaranteed.

`declaration.mistakes` collects all mistakes; `inputs` looks at groupings, `instance_state` at attributes that change,
`guarantees` at what weakens a sink. Reads a user's source at most; must not run user code, nor know the runtime.
"""
