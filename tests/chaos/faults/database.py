"""PostgreSQL dies, in one of three ways."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from tests.chaos.faults.fault import Fault
from tests.sessions import query
from tests.worker.processes import until


class PostmasterKilled(Fault):
    """Killed as if the power had gone, and started again."""

    name = "postgres-killed"
    says = "kill -9 of PostgreSQL, and a restart"
    number = signal.SIGKILL
    pause = (0.3, 1.5)

    def inject(self) -> int:
        """Kill it, start it."""
        self.stage.server.kill(self.number)
        self.stage.server.start()
        return 1


class ImmediateStop(PostmasterKilled):
    """Stopped without a word to anyone."""

    name = "postgres-stopped"
    says = "immediate stop of PostgreSQL, and a restart"
    number = signal.SIGQUIT


class BackendKilled(Fault):
    """One server process of a worker is killed: all sessions end, and the server recovers."""

    name = "backend-killed"
    says = "kill -9 of one backend, on which PostgreSQL ends all others"
    pause = (0.3, 1.5)

    def inject(self) -> int:
        """Kill one, and wait until the server takes connections again."""
        with self.stage.session() as db:
            rows = query(db, "select pid from pg_stat_activity where application_name like 'wakeful%'")
            if not rows:
                return 0
            with suppress(ProcessLookupError):
                os.kill(self.stage.dice.choice(rows)["pid"], signal.SIGKILL)
        until(self._answers, 60)
        return 1

    def _answers(self) -> bool:
        import psycopg

        with suppress(psycopg.OperationalError), self.stage.session():
            return True
        return False


class Terminate(Fault):
    """Twenty times a second some session of a worker or producer is ended."""

    name = "terminate"
    says = "pg_terminate_backend twenty times a second"
    pause = (0.0, 0.02)
    lease = 10.0
    share = 3.0

    def inject(self) -> int:
        """Ten of them, over half a second."""
        done = 0
        with self.stage.session() as db:
            for _ in range(10):
                rows = query(
                    db,
                    "select pid from pg_stat_activity where datname = current_database()"
                    " and backend_type = 'client backend' and pid <> pg_backend_pid()",
                )
                if rows:
                    query(db, "select pg_terminate_backend(%s)", self.stage.dice.choice(rows)["pid"])
                    done += 1
                query(db, "select pg_sleep(0.05)")
        return done
