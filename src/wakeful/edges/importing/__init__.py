"""Adopting a home-made jobs table: its mapping, from a file or a preset, and the run that moves its rows."""
