"""The demo: a small shop's jobs on a database of their own, with trouble made on purpose, and every job accounted for."""
