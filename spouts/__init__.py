"""Sources to use as they are. Knows `topology`, and no bolt."""
