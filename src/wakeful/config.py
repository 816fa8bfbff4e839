"""Settings: frozen, one class a stage, read once.

A flag comes before `WAKEFUL_<FLAG>`, that before the nearest `wakeful.toml` (or `[tool.wakeful]` of a
`pyproject.toml`) in this folder or above, that before the default. In a file, settings stand in the table of
their class: `[worker] concurrency = 8`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from difflib import get_close_matches
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_type_hints

from wakeful.values.address import address
from wakeful.values.duration import positive_duration
from wakeful.values.errors import ConfigError, InvalidOption
from wakeful.values.names import queue_name, task_name
from wakeful.values.number import whole_number
from wakeful.values.policy import BreakerPolicy, QueuePolicy, breaker_policy, queue_policy
from wakeful.values.retry import DEFAULT_MAX_ATTEMPTS, DEFAULT_RETRY, RetryPolicy
from wakeful.values.retry_settings import retry_settings
from wakeful.values.wording import shown

Reader = Callable[[Any, str], object]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lane:
    """A queue to serve, with slots of its own; None: it shares the rest."""

    queue: str
    slots: int | None = None


def _text(value: object, source: str) -> str:
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise InvalidOption(source, f"is {shown(value)}: give it a text.")


def _switch(value: object, source: str) -> bool:
    match value:
        case bool():
            return value
        case str() if value.strip().lower() in ("on", "true", "yes", "1"):
            return True
        case str() if value.strip().lower() in ("off", "false", "no", "0"):
            return False
    raise InvalidOption(source, f"is {shown(value)}: say on or off.")


def _whole(least: int, most: int) -> Reader:
    def read(value: object, source: str) -> int:
        text = value.strip() if isinstance(value, str) else ""
        return whole_number(int(text) if text.isdecimal() else value, source, least, most)

    return read


def _one_of(*choices: str) -> Reader:
    def read(value: object, source: str) -> str:
        if isinstance(value, str) and value.strip().lower() in choices:
            return value.strip().lower()
        raise InvalidOption(source, f"is {shown(value)}: choose from {', '.join(choices)}.")

    return read


def _is_off(value: object) -> bool:
    return value is False or (isinstance(value, str) and value.strip().lower() == "off")


def _span_or_off(value: Any, source: str) -> timedelta | None:
    return None if _is_off(value) else positive_duration(value, source)


def _limit(value: Any, source: str) -> float | None:
    if _is_off(value):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not 0 <= number < inf:
        raise InvalidOption(source, f"is {shown(value)}: give a number of zero or more, or off.")
    return number


def _address(value: object, source: str) -> str:
    text = _text(value, source)
    if not text.startswith(("http://", "https://")):
        raise InvalidOption(source, f"is {shown(value)}: give an address that begins with https:// or http://.")
    return text


def _listed(value: object, source: str) -> list[str]:
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, Iterable):
        raise InvalidOption(source, f"is {shown(value)}: list names, with commas between them.")
    return [str(item).strip() for item in listed if str(item).strip()]


def _task_names(value: object, source: str) -> frozenset[str]:
    return frozenset(task_name(name, source) for name in _listed(value, source))


def _lanes(value: object, source: str) -> tuple[Lane, ...]:
    lanes = []
    for item in _listed(value, source):
        name, colon, slots = item.partition(":")
        lanes.append(Lane(queue_name(name, source), _slots(slots, source) if colon else None))
    if len({lane.queue for lane in lanes}) < len(lanes):
        raise InvalidOption(source, f"is {shown(value)}, which names a queue twice: name each once.")
    return tuple(lanes)


_slots: Final[Callable[[object, str], Any]] = _whole(1, 10_000)


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Where the database is. No `dsn`: the embedded server. `notify` off: nobody is poked, workers poll."""

    dsn: Annotated[str | None, address] = None
    listen_dsn: Annotated[str | None, partial(address, without="listen where the DSN says")] = None
    pool_size: Annotated[int, _whole(2, 1000)] = 10
    notify: Annotated[bool, _switch] = True


@dataclass(frozen=True, slots=True)
class ProduceSettings:
    """What enqueuing does. `payload_limit` is in bytes of JSON; tasks in `enqueue_off` are not enqueued."""

    payload_limit: Annotated[int, _whole(1, 256 * 1024 * 1024)] = 262_144
    enqueue_off: Annotated[frozenset[str], _task_names] = frozenset()


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker runs. No `queues`: all of them.

    `timeout` is for tasks that name none; `max_rss` is in MiB; `retention` is how long finished jobs are kept.
    """

    queues: Annotated[tuple[Lane, ...], _lanes] = ()
    concurrency: Annotated[int, _whole(1, 10_000)] = 10
    processes: Annotated[int, _whole(1, 1000)] = 1
    lease: Annotated[timedelta, positive_duration] = timedelta(seconds=30)
    poll_interval: Annotated[timedelta, positive_duration] = timedelta(seconds=20)
    timeout: Annotated[timedelta, positive_duration] = timedelta(minutes=30)
    shutdown_timeout: Annotated[timedelta, positive_duration] = timedelta(seconds=25)
    max_jobs: Annotated[int | None, _whole(1, 10**12)] = None
    max_rss: Annotated[int | None, _whole(16, 10**7)] = None
    retention: Annotated[timedelta, positive_duration] = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What commands that run for long tell. `auto`: text on a terminal, else JSON lines."""

    log_format: Annotated[Literal["auto", "json", "text"], _one_of("auto", "json", "text")] = "auto"
    log_level: Annotated[Literal["debug", "info", "warning", "error"], _one_of("debug", "info", "warning", "error")] = (
        "info"
    )


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The tick endpoint in web processes: who may call it (no `tick_token`: nobody), and how many jobs it runs."""

    tick_token: Annotated[str | None, _text] = None
    tick_limit: Annotated[int, _whole(1, 10_000)] = 25


@dataclass(frozen=True, slots=True)
class ObserveSettings:
    """Where a worker process answers probes and scrapes. No `probe_port`: nowhere."""

    probe_port: Annotated[int | None, _whole(1, 65_535)] = None
    probe_host: Annotated[str, _text] = "127.0.0.1"
    usage_webhook: Annotated[str | None, _address] = None


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """When someone should know. A rule that is `off` is not looked at."""

    alert_every: Annotated[timedelta, positive_duration] = timedelta(minutes=5)
    alert_depth: Annotated[float | None, _limit] = 10_000
    alert_age: Annotated[timedelta | None, _span_or_off] = timedelta(minutes=10)
    alert_failure_rate: Annotated[float | None, _limit] = 0.5
    alert_dead_letters: Annotated[float | None, _limit] = 0
    alert_no_worker: Annotated[bool, _switch] = True
    alert_breaker: Annotated[bool, _switch] = True
    alert_snapshot: Annotated[timedelta | None, _span_or_off] = timedelta(minutes=15)
    alert_webhook: Annotated[str | None, _address] = None

    def rules(self) -> dict[str, float]:
        """The numbers by rule; durations are seconds."""
        given = {
            "depth": self.alert_depth,
            "age": None if self.alert_age is None else self.alert_age.total_seconds(),
            "failure_rate": self.alert_failure_rate,
            "dead_letters": self.alert_dead_letters,
            "no_worker": 1.0 if self.alert_no_worker else None,
            "breaker": 1.0 if self.alert_breaker else None,
            "snapshot": None if self.alert_snapshot is None else self.alert_snapshot.total_seconds(),
        }
        return {rule: number for rule, number in given.items() if number is not None}


NO_ALERTS: Final = AlertSettings(
    alert_depth=None,
    alert_age=None,
    alert_failure_rate=None,
    alert_dead_letters=None,
    alert_no_worker=False,
    alert_breaker=False,
    alert_snapshot=None,
)


@dataclass(frozen=True, slots=True)
class SteeringSettings:
    """What `[retry]`, `[breaker]`, `[breaker.NAME]` and `[queue.NAME]` of a file say.

    `retry` and `max_attempts` are for tasks that say nothing themselves, `breaker` for all breakers.
    """

    retry: RetryPolicy = DEFAULT_RETRY
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    breaker: BreakerPolicy = BreakerPolicy()  # noqa: RUF009 - frozen
    breakers: Mapping[str, BreakerPolicy] = field(default_factory=dict)
    queues: Mapping[str, QueuePolicy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. `app` is `module:attribute`, for commands."""

    app: Annotated[str | None, _text] = None
    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    produce: ProduceSettings = field(default_factory=ProduceSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    log: LogSettings = field(default_factory=LogSettings)
    web: WebSettings = field(default_factory=WebSettings)
    observe: ObserveSettings = field(default_factory=ObserveSettings)
    alert: AlertSettings = field(default_factory=AlertSettings)
    steering: SteeringSettings = field(default_factory=SteeringSettings)


SECTIONS: Final[Mapping[str, type[Any]]] = {
    "database": DatabaseSettings,
    "produce": ProduceSettings,
    "worker": WorkerSettings,
    "log": LogSettings,
    "web": WebSettings,
    "observe": ObserveSettings,
    "alert": AlertSettings,
}
STEERING: Final = ("retry", "breaker", "queue")
# Their variables are refused when empty; other variables are then as good as unset.
ADDRESSES: Final = ("dsn", "listen_dsn")


def load(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Settings:
    """Read all settings; a ConfigError names the one that is wrong, and where it stands.

    `flags` are by name, whatever their section; None is not given.
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    variables = os.environ if environ is None else environ
    path, tables = _nearest_file(directory or Path.cwd())
    _refuse_unknown(path, tables)
    try:
        sections = {
            name: _build(kind, given, variables, tables.get(name, {}), f"[{name}] ", path)
            for name, kind in SECTIONS.items()
        }
        return _build(Settings, given, variables, tables, "", path, steering=_steering(tables), **sections)
    except InvalidOption as error:
        raise ConfigError(error.option, error.problem) from None


def _steering(tables: Mapping[str, Any]) -> SteeringSettings:
    """The tables that say what holds for the whole fleet; those of breakers and queues hold tables by name."""
    retry, max_attempts = retry_settings(tables.get("retry", {}))
    breakers = tables.get("breaker", {})
    named = {name: said for name, said in breakers.items() if isinstance(said, Mapping)}
    own = {name: said for name, said in breakers.items() if name not in named}
    return SteeringSettings(
        retry,
        max_attempts,
        breaker_policy(own, "[breaker] "),
        {name: breaker_policy(said, f"[breaker.{name}] ") for name, said in named.items()},
        {name: queue_policy(said, f"[queue.{name}] ") for name, said in tables.get("queue", {}).items()},
    )


def _build(
    kind: type[T],
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    table: Mapping[str, object],
    prefix: str,
    path: Path | None,
    **made: object,
) -> T:
    values = dict(made)
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if name in made:
            continue
        variable = f"WAKEFUL_{name.upper()}"
        sources = [
            (name, flags.get(name)),
            (variable, environ.get(variable) if name in ADDRESSES else environ.get(variable, "").strip() or None),
            (f"{prefix}{name} in {path}", table.get(name)),
            # What hosting services set: ours only if nobody says otherwise.
            ("DATABASE_URL", environ.get("DATABASE_URL", "").strip() or None if name == "dsn" else None),
        ]
        for source, value in sources:
            if value is not None:
                [read] = hint.__metadata__
                values[name] = read(value, source)
                break
    return kind(**values)


def _nearest_file(directory: Path) -> tuple[Path | None, Mapping[str, Any]]:
    for folder in (directory.absolute(), *directory.absolute().parents):
        if tables := _read(folder / "wakeful.toml"):
            return folder / "wakeful.toml", tables
        if tables := _read(folder / "pyproject.toml").get("tool", {}).get("wakeful"):
            return folder / "pyproject.toml", tables
    return None, {}


def _read(path: Path) -> Mapping[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"cannot be read ({error}): correct it.") from None


def _refuse_unknown(path: Path | None, tables: Mapping[str, Any]) -> None:
    homes = {one.name: name for name, kind in SECTIONS.items() for one in fields(kind)}
    for name, value in tables.items():
        if name in SECTIONS:
            if not isinstance(value, dict):
                raise ConfigError(f"{name} in {path}", f"is {shown(value)}, not a table: write [{name}].")
            for key in value:
                if homes.get(key) != name:
                    raise _unknown(f"[{name}] {key} in {path}", key, homes)
        elif name in STEERING:
            _refuse_other_than_tables(name, value, path)
        elif name != "app":
            known = dict.fromkeys((*SECTIONS, *STEERING, "app"), "")
            raise _unknown(f"{name} in {path}", name, {**homes, **known})


def _refuse_other_than_tables(name: str, value: object, path: Path | None) -> None:
    if not isinstance(value, dict):
        raise ConfigError(f"{name} in {path}", f"is {shown(value)}, not a table: write [{name}].")
    if name == "queue" and (bare := [key for key, said in value.items() if not isinstance(said, dict)]):
        raise ConfigError(f"[queue] {bare[0]} in {path}", "stands outside of any queue: write [queue.NAME].")


def _unknown(source: str, key: str, homes: Mapping[str, str]) -> ConfigError:
    near = get_close_matches(key, homes, n=1)
    if near and (home := homes[near[0]]):
        return ConfigError(source, f"is no setting: did you mean {near[0]} in [{home}]?")
    if near:
        return ConfigError(source, f"is no setting: did you mean {near[0]}?")
    return ConfigError(source, f"is no setting: known are {', '.join(sorted(homes))}.")
