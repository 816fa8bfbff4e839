"""The probe: /healthz, /readyz and /metrics of a worker process, on a port of its own."""

from wakeful.edges.probe.server import Probe

__all__ = ["Probe"]
