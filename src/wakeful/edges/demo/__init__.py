"""The demo: a small shop's jobs on a database of their own, trouble made on purpose, every job accounted for."""
