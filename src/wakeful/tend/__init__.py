"""Tend: what goes on beside the flow. Leases are renewed, house is kept, and a duty that fails is taken up again."""
