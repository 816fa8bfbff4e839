"""A row that the server refuses, for reasons that no client can know."""

from __future__ import annotations

from tests.sessions import Session


def refuse_poison(db: Session) -> None:
    """Rows with a poisoned payload cannot be stored."""
    db.execute(
        "create function public.refuse_poison() returns trigger language plpgsql as"
        " $$ begin raise exception 'poison'; end $$"
    )
    db.execute(
        "create trigger refuse_poison before insert on wakeful.job for each row"
        " when (new.payload ? 'poison') execute function public.refuse_poison()"
    )
