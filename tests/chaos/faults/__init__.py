"""Every fault by its name, most telling first."""

from __future__ import annotations

from tests.chaos.faults.crashing import Crashing
from tests.chaos.faults.database import BackendKilled, ImmediateStop, PostmasterKilled, Terminate
from tests.chaos.faults.failover import Failover, FailoverAsync
from tests.chaos.faults.fault import Fault, Nothing
from tests.chaos.faults.kill import Kill, KillBetween
from tests.chaos.faults.outside import DiskFull, Pooler, WorkerClock
from tests.chaos.faults.patroni import Patroni, PatroniAsync
from tests.chaos.faults.server_side import Connections, DatabaseClock, Pokes, Snapshot
from tests.chaos.faults.stop import Gil, Stop
from tests.chaos.faults.upgrade import Upgrade
from tests.chaos.faults.wired import Cuts, HeldUp, ListenerHalfOpen, ListenerKilled, Partition

FAULTS: dict[str, type[Fault]] = {
    kind.name: kind
    for kind in (
        Nothing,
        Kill,
        KillBetween,
        Stop,
        Gil,
        PostmasterKilled,
        ImmediateStop,
        BackendKilled,
        Terminate,
        Cuts,
        ListenerKilled,
        ListenerHalfOpen,
        HeldUp,
        Partition,
        Connections,
        Snapshot,
        Crashing,
        DatabaseClock,
        Pokes,
        DiskFull,
        WorkerClock,
        Pooler,
        Upgrade,
        Failover,
        FailoverAsync,
        Patroni,
        PatroniAsync,
    )
}
