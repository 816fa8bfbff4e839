"""Settle: outcomes become settlements, which are written as sets, through the fence."""
