"""The report of a comparison: the live table, the final table, plots and a page. Must not measure anything."""
