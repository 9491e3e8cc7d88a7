"""One file for each command. Each is light to import, and imports what it needs when it is called.

Must not know another command.
"""
