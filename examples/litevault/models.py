"""Items, as SQLAlchemy sees them."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class ItemStatus(StrEnum):
    """An item is enriched once; what it becomes afterwards is for a person to say."""

    ENRICHING = "ENRICHING"
    READY_TO_CONFIRM = "READY_TO_CONFIRM"
    DISCARDED = "DISCARDED"


class Base(DeclarativeBase):
    """The tables of this application."""


class Item(Base):
    """Something a user has put into the vault."""

    __tablename__ = "item"

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    content: Mapped[str]
    status: Mapped[str] = mapped_column(default=ItemStatus.ENRICHING.value)
    summary: Mapped[str | None] = mapped_column(default=None)
    enrichments: Mapped[int] = mapped_column(default=0)
