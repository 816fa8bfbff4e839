"""What runs inside a system's own environment: the standard library only."""
