"""Pure functions that give Statements: the only place that names SQL functions."""
