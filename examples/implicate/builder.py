"""Embeddings and the index they go to. The index is a table here; a vector store's upsert is as idempotent."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from wakeful import Wakeful

SCHEMA = """
create table if not exists entity (id text primary key, kind text not null, text text not null);
create table if not exists implicate_vector (
    entity_id text primary key, embedding double precision[] not null, upserts integer not null default 1
)
"""

_ENTITIES = "select e.id, e.text from entity e where e.id = any (%s)"
_UPSERT = """
insert into implicate_vector as v (entity_id, embedding) values (%s, %s)
on conflict (entity_id) do update set embedding = excluded.embedding, upserts = v.upserts + 1
"""


@dataclass(frozen=True, slots=True)
class Built:
    """How far a batch came: `processed` ids from its start, of which so many were found and upserted."""

    processed: int
    upserted: int
    error: Exception | None = None


class ImplicateBuilder:
    """Turns entities into vectors of the implicate index."""

    def __init__(self, app: Wakeful) -> None:
        self._app = app

    def build_incremental(self, entity_ids: Sequence[str]) -> Built:
        """Embed and upsert, in order. What comes before a failure is in the index, and is told."""
        with self._app.database.transaction() as conn:
            texts = dict(conn.execute(_ENTITIES, [list(entity_ids)]).fetchall())
            for place, id in enumerate(entity_ids):
                if id not in texts:
                    continue
                try:
                    vector = self.embed(id, texts[id])
                except ConnectionError as error:
                    return Built(place, sum(one in texts for one in entity_ids[:place]), error)
                conn.execute(_UPSERT, [id, vector])
        return Built(len(entity_ids), len(texts))

    def embed(self, id: str, text: str) -> list[float]:
        """A vector for the text: the same for the same text. A model's service would be asked here."""
        return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:8]]
