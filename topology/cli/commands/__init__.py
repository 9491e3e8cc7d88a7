"""One file a command. Each is light to import, and imports what it needs when it is called."""
