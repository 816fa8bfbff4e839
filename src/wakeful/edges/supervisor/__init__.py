"""The supervisor: keeps a number of worker processes alive, replaces them, and ends them.

Each child is a fresh process on a tether, a pair of sockets: the child tells over it when it is ready, and learns from
its end that the parent has gone, however that came about.
"""

from wakeful.edges.supervisor.plan import Plan
from wakeful.edges.supervisor.supervisor import Supervisor

__all__ = ["Plan", "Supervisor"]
