"""`POST /api/jobs/tick` in every stack: who may, what it runs, what it answers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any
from wsgiref.util import setup_testing_defaults

import httpx
import pytest
from fastapi import FastAPI
from flask import Flask
from starlette.applications import Starlette
from starlette.routing import Mount
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from tests.db.stacks import configure_django
from wakeful import InvalidOption, Wakeful
from wakeful.config import Settings, WebSettings
from wakeful.testing import Database, sandboxed
from wakeful.web import tick_asgi, tick_view, tick_wsgi

TOKEN = "correct horse battery staple"
PATH = "/api/jobs/tick"

Ask = Callable[..., tuple[int, dict[str, Any], dict[str, str]]]


@pytest.fixture
def app(database: Database) -> Iterator[Wakeful]:
    made = Wakeful("postgresql://nobody@localhost:1/none")

    @made.task(name="good")
    def good() -> str:
        return threading.current_thread().name

    @made.task(name="on the loop".replace(" ", "."))
    async def on_the_loop() -> None: ...

    @made.task(name="bad", max_attempts=1)
    def bad() -> None:
        raise ValueError("no")

    with sandboxed(made, database):
        yield made


def headers_of(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def by_asgi(web: Any) -> Ask:
    def ask(method: str = "POST", token: str | None = TOKEN, path: str = PATH, **headers: str) -> Any:
        # An event loop for each request, as serverless hosts have it.
        answer = asyncio.run(requested(web, method, path, {**headers_of(token), **headers}))
        return answer.status_code, answer.json(), dict(answer.headers)

    return ask


async def requested(web: Any, method: str, path: str, headers: dict[str, str]) -> httpx.Response:
    sent = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://web") as client:
        return await client.request(method, path, headers=sent)


def fastapi(app: Wakeful, **said: Any) -> Ask:
    web = FastAPI()
    web.mount("/api/jobs", tick_asgi(app, **said))
    return by_asgi(web)


def starlette(app: Wakeful, **said: Any) -> Ask:
    return by_asgi(Starlette(routes=[Mount("/api/jobs", tick_asgi(app, **said))]))


def alone(app: Wakeful, **said: Any) -> Ask:
    return by_asgi(tick_asgi(app, **said))


def flask(app: Wakeful, **said: Any) -> Ask:
    web = Flask("web")
    web.wsgi_app = DispatcherMiddleware(web.wsgi_app, {"/api/jobs": tick_wsgi(app, **said)})  # type: ignore[method-assign]

    def ask(method: str = "POST", token: str | None = TOKEN, path: str = PATH, **headers: str) -> Any:
        answer = web.test_client().open(path, method=method, headers={**headers_of(token), **headers})
        return answer.status_code, answer.get_json(), dict(answer.headers)

    return ask


def wsgi(app: Wakeful, **said: Any) -> Ask:
    web = tick_wsgi(app, **said)

    def ask(method: str = "POST", token: str | None = TOKEN, path: str = PATH, **headers: str) -> Any:
        environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path}
        environ.update({f"HTTP_{name.upper()}": value for name, value in {**headers_of(token), **headers}.items()})
        setup_testing_defaults(environ)
        began: list[Any] = []
        body = b"".join(web(environ, lambda status, given: began.extend([status, given])))
        return int(began[0].split()[0]), json.loads(body), dict(began[1])

    return ask


def django(app: Wakeful, **said: Any) -> Ask:
    configure_django()
    from django.test import Client, override_settings
    from django.urls import path as route

    class Urls:
        urlpatterns = (route("api/jobs/tick", tick_view(app, **said)),)

    def ask(method: str = "POST", token: str | None = TOKEN, path: str = PATH, **headers: str) -> Any:
        with override_settings(
            ROOT_URLCONF=Urls, MIDDLEWARE=["django.middleware.csrf.CsrfViewMiddleware"], ALLOWED_HOSTS=["*"]
        ):
            client = Client(enforce_csrf_checks=True, headers={**headers_of(token), **headers})
            answer = client.generic(method, path)
        return answer.status_code, json.loads(answer.content), dict(answer.headers)

    return ask


STACKS = [fastapi, starlette, alone, flask, wsgi, django]
each_stack = pytest.mark.parametrize("stack", STACKS, ids=lambda stack: stack.__name__)


@each_stack
def test_who_has_the_token_has_what_is_due_run(app: Wakeful, stack: Callable[..., Ask]) -> None:
    for name in ("good", "on.the.loop", "bad"):
        app.enqueue(name)
    app.enqueue("good", delay="1h")
    ask = stack(app, token=TOKEN)
    status, body, headers = ask()
    assert (status, body) == (200, {"ok": True, "processed": 3, "succeeded": 2, "failed": 1})
    assert {name.lower(): value for name, value in headers.items()}["content-type"] == "application/json"
    assert ask()[1] == {"ok": True, "processed": 0, "succeeded": 0, "failed": 0}


@each_stack
def test_no_more_are_claimed_than_the_limit(app: Wakeful, stack: Callable[..., Ask]) -> None:
    app.tasks["good"].enqueue_many([{}] * 5)
    ask = stack(app, token=TOKEN, limit=2)
    assert [ask()[1]["processed"] for _ in range(4)] == [2, 2, 1, 0]


@each_stack
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x", "ü" + TOKEN])
def test_who_has_it_not_is_refused_and_nothing_runs(app: Wakeful, stack: Callable[..., Ask], token: str | None) -> None:
    app.enqueue("good")
    if token and not token.isascii():
        token = token.encode().decode("latin-1")
    status, body, headers = stack(app, token=TOKEN)(token=token)
    assert (status, body["ok"]) == (401, False)
    assert {name.lower(): value for name, value in headers.items()}["www-authenticate"] == "Bearer"
    assert TOKEN not in json.dumps(body)
    assert app.queue.get_stats()["completed"] == 0


@each_stack
def test_another_scheme_is_no_bearer(app: Wakeful, stack: Callable[..., Ask]) -> None:
    assert stack(app, token=TOKEN)(token=None, Authorization=f"Basic {TOKEN}")[0] == 401


@each_stack
def test_without_a_token_configured_everyone_is_refused(app: Wakeful, stack: Callable[..., Ask]) -> None:
    app.enqueue("good")
    for token in (None, "", "None", TOKEN):
        status, body, _ = stack(app)(token=token)
        assert (status, body["ok"]) == (503, False)
        assert "WAKEFUL_TICK_TOKEN" in body["error"]
    assert app.queue.get_stats()["completed"] == 0


@each_stack
def test_only_what_it_is_told_to_answer_is_answered(app: Wakeful, stack: Callable[..., Ask]) -> None:
    app.enqueue("good")
    status, _, headers = stack(app, token=TOKEN)("GET")
    assert (status, headers.get("Allow") or headers.get("allow")) == (405, "POST")
    assert stack(app, token=TOKEN, methods=("GET", "POST"))("GET")[0] == 200


def test_another_path_is_not_found(app: Wakeful) -> None:
    for stack in (fastapi, alone, flask, wsgi):
        assert stack(app, token=TOKEN)(path="/api/jobs/other")[0] == 404


@each_stack
def test_a_database_that_is_away_is_told_without_its_address(database: Database, stack: Callable[..., Ask]) -> None:
    away = Wakeful("postgresql://secret:password@127.0.0.1:1/none")
    away.task(name="t")(lambda: None)
    status, body, _ = stack(away, token=TOKEN)()
    assert (status, body) == (503, {"ok": False, "error": "The database is not available."})


def test_token_and_limit_come_from_the_settings(database: Database) -> None:
    settings = Settings(web=WebSettings(tick_token=TOKEN, tick_limit=1))
    app = Wakeful(settings=settings)
    app.task(name="t")(lambda: None)
    with sandboxed(app, database):
        app.tasks["t"].enqueue_many([{}] * 3)
        ask = alone(app)
        assert ask(token="other")[0] == 401
        assert ask()[1]["processed"] == 1


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_limit_that_is_none_is_refused(app: Wakeful, limit: int) -> None:
    with pytest.raises(InvalidOption, match="limit"):
        tick_asgi(app, limit=limit)


async def test_async_handlers_run_on_the_servers_loop_and_ticks_may_overlap(database: Database) -> None:
    app = Wakeful("postgresql://nobody@localhost:1/none")
    loops = set()

    @app.task(name="t")
    async def t() -> None:
        loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0.05)

    with sandboxed(app, database):
        await t.aenqueue_many([{}] * 20)
        transport = httpx.ASGITransport(tick_asgi(app, token=TOKEN, limit=10))
        async with httpx.AsyncClient(transport=transport, base_url="http://web") as client:
            answers = await asyncio.gather(*(client.post(PATH, headers=headers_of(TOKEN)) for _ in range(4)))
        assert sum(answer.json()["processed"] for answer in answers) == 20
        assert loops == {asyncio.get_running_loop()}
        await app.aclose()


def test_a_schedule_is_fired_by_a_tick(database: Database) -> None:
    app = Wakeful("postgresql://nobody@localhost:1/none")
    app.schedule(every="1h", name="hourly")(app.task(name="t")(lambda: None))
    with sandboxed(app, database) as box:
        ask = wsgi(app, token=TOKEN)
        assert ask()[1]["processed"] == 0
        box.travel(hours=1, minutes=1)
        assert ask()[1]["processed"] == 1
