"""Replay: a job's handler run once more, here, in the foreground, with nothing of the queue changed."""

from wakeful.edges.replay.replay import Replayed, replay_here

__all__ = ["Replayed", "replay_here"]
