"""The commands, one file each. Each file is light to import, and imports what it needs when the command is called.

A command must not know another command.
"""
