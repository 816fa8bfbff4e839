"""What readers get: a table in the terminal, a page, plots."""
