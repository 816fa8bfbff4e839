"""The items API. An item and its enrichment job are made in one transaction: there is never one without the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from uuid import UUID

from fastapi import Depends, FastAPI, HTTPException, Request
from psycopg.conninfo import conninfo_to_dict
from pydantic import BaseModel
from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from examples.litevault.enrichment import app as queue
from examples.litevault.enrichment import enrich_item
from examples.litevault.models import Base, Item, ItemStatus


class NewItem(BaseModel):
    """What a user sends."""

    content: str


class ItemView(BaseModel):
    """What a user sees."""

    id: UUID
    status: str
    summary: str | None


@asynccontextmanager
async def lifespan(api: FastAPI) -> AsyncIterator[None]:
    """Tables, and sessions on the queue's own database."""
    engine = create_async_engine(engine_url(queue.database.dsn))
    async with engine.begin() as conn:
        await conn.run_sync(Base.metadata.create_all)
    api.state.sessions = async_sessionmaker(engine, expire_on_commit=False)
    yield
    await engine.dispose()


api = FastAPI(title="LiteVault", lifespan=lifespan)


async def session(request: Request) -> AsyncIterator[AsyncSession]:
    """A session whose transaction commits when the request has gone well."""
    async with request.app.state.sessions.begin() as opened:
        yield opened


Session = Annotated[AsyncSession, Depends(session, scope="function")]


@api.post("/items", status_code=201)
async def create_item(new: NewItem, session: Session) -> ItemView:
    """Store it, and have it enriched."""
    item = Item(content=new.content)
    session.add(item)
    await session.flush()
    await enrich_item.using(conn=session).aenqueue(item.id)
    return view(item)


@api.get("/items/{id}")
async def read_item(id: UUID, session: Session) -> ItemView:
    """How far it is."""
    return view(await found(session, id))


@api.post("/items/{id}/discard")
async def discard_item(id: UUID, session: Session) -> ItemView:
    """Nobody wants it: an enrichment that is still to come leaves it alone."""
    item = await found(session, id)
    item.status = ItemStatus.DISCARDED
    return view(item)


async def found(session: AsyncSession, id: UUID) -> Item:
    """The item, locked; 404 for none."""
    item = await session.get(Item, id, with_for_update=True)
    if item is None:
        raise HTTPException(404, "There is no such item.")
    return item


def view(item: Item) -> ItemView:
    """What a user may see of it."""
    return ItemView(id=item.id, status=item.status, summary=item.summary)


def engine_url(dsn: str) -> URL:
    """The queue's address in SQLAlchemy's form."""
    parts = conninfo_to_dict(dsn)
    host, port = parts.pop("host", None), parts.pop("port", None)
    return URL.create(
        "postgresql+psycopg",
        username=_text(parts.get("user")),
        password=_text(parts.get("password")),
        host=_text(host),
        port=None if port is None else int(port),
        database=_text(parts.get("dbname")),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
