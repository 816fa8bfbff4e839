"""wakeful beside its rivals and beside the bare driver: same server, same run, public interfaces only."""
