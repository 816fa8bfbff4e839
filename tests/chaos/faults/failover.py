"""The primary dies for good, and a streaming standby takes its place."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import ClassVar

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.chaos.faults.fault import Fault
from tests.chaos.forgetting import since_promotion
from tests.chaos.stage import Stage
from tests.chaos.standby import Standby
from tests.chaos.wire import wire_to


class Failover(Fault):
    """Synchronous: what was acknowledged is on both. Clients have both addresses, and take the one that writes."""

    name = "failover"
    says = "kill -9 of the primary under load, and the synchronous standby promoted in its place"
    pause = (3.0, 6.0)
    synchronous: ClassVar[bool] = True

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._open = ExitStack()

    def prepare(self) -> None:
        """A copy of the primary that follows it over a wire, before anyone works."""
        self._wire = self._open.enter_context(wire_to(self.stage.dsn))
        self._standby = Standby(self.stage, self._wire.dsn)
        self._open.callback(self._standby.end)
        if self.synchronous:
            # Only once it follows: until then, no commit would be answered.
            with self.stage.session() as db:
                db.execute("alter system set synchronous_standby_names = '*'")
                db.execute("select pg_reload_conf()")
        if self.stage.pooler is None:
            primary = conninfo_to_dict(self.stage.dsn)
            self.stage.worker_dsn = self.stage.load_dsn = make_conninfo(
                self.stage.dsn,
                host=f"{primary['host']},127.0.0.1",
                port=f"{primary['port']},{self._standby.port}",
                target_session_attrs="read-write",
            )

    def inject(self) -> int:
        """Once: the primary does not come back."""
        self.stage.server.kill()
        self._standby.promote()
        self.stage.move_to(self._standby.dsn)
        self.over = True
        return 1

    def end(self) -> None:
        """The standby goes too."""
        self._open.close()


class FailoverAsync(Failover):
    """Asynchronous: the standby hears nothing of the last second, and nobody waits for it. That second is gone."""

    name = "failover-async"
    says = "the same with an asynchronous standby that lags by up to a second and a half: what is lost is counted"
    synchronous = False

    def inject(self) -> int:
        """Silence the wire, let acknowledged work pile up, then as before."""
        assert self._wire.silence("walreceiver") == 1
        time.sleep(self.stage.dice.uniform(0.5, 1.5))
        done = super().inject()
        with self.stage.session() as db:
            self.forgetting = since_promotion(db, self.lease)
        return done
