"""Runs Statements on PostgreSQL, sync and async: the only layer below the edges that imports a driver."""
