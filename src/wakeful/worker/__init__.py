"""The worker: wires the stages, and owns the tasks in which they run."""

from wakeful.worker.worker import Worker

__all__ = ["Worker"]
