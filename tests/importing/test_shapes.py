"""`wakeful import` takes the tables of the seeds as they are, each by its preset."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from tests.acceptance.commands import Commands
from tests.importing import shapes
from tests.sessions import Session, query, scalar

ITEM = uuid4()


def jobs(db: Session) -> list[dict[str, object]]:
    return query(db, "select * from wakeful.jobs order by created_at, payload::text")


def test_an_outbox_without_types_or_payloads(wakeful: Commands, db: Session) -> None:
    db.execute(shapes.LITEVAULT)
    db.execute("insert into enrichment_outbox (item_id) values (%s)", [ITEM])
    db.execute("insert into enrichment_outbox (item_id, attempt_count, last_error) values (%s, 2, 'no answer')", [ITEM])
    told = wakeful.json("import", "litevault")
    assert (told["moved"], told["inserted"], told["left"], told["refused"]) == (2, 2, {}, [])
    first, second = jobs(db)
    assert (first["task"], first["payload"], first["state"]) == ("enrichment", {"item_id": str(ITEM)}, "ready")
    assert (first["attempt"], first["max_attempts"], first["last_error_message"]) == (0, 3, None)
    assert (second["attempt"], second["max_attempts"], second["last_error_message"]) == (2, 3, "no answer")


def test_the_same_outbox_with_leases(wakeful: Commands, db: Session) -> None:
    db.execute(shapes.LITEVAULT)
    db.execute(shapes.LITEVAULT_WITH_LEASES)
    db.execute("insert into enrichment_outbox (item_id, run_at) values (%s, now() + interval '5 minutes')", [ITEM])
    db.execute(
        "insert into enrichment_outbox (item_id, job_type, attempt_count, last_error_code, last_error_message)"
        " values (%s, 'vectors', 1, 'TIMEOUT', 'no answer')",
        [ITEM],
    )
    assert wakeful.json("import", "litevault")["moved"] == 2
    later, vectors = jobs(db)
    assert (vectors["last_error_code"], vectors["last_error_message"]) == ("TIMEOUT", "no answer")
    assert (later["task"], later["state"]) == ("enrichment", "scheduled")
    assert (vectors["task"], vectors["state"]) == ("vectors", "ready")


def test_a_unified_table_whose_rows_have_parents(wakeful: Commands, db: Session) -> None:
    db.execute(shapes.LIPAS)
    correlation = scalar(
        db, "insert into jobs (type, payload, created_by) values ('email', '{\"to\": 1}', 'a') returning correlation_id"
    )
    db.execute(
        "insert into jobs (type, payload, correlation_id, parent_job_id, dedup_key)"
        " values ('webhook', '{}', %s, 1, 'w')",
        [correlation],
    )
    db.execute("insert into jobs (type, payload, dedup_key) values ('webhook', '{}', 'w')")
    told = wakeful.json("import", "lipas")
    assert (told["inserted"], told["joined"], told["left"]) == (2, 1, {"completed": 3})
    email, webhook = jobs(db)
    assert (email["task"], email["created_by"], email["priority"]) == ("email", "a", 100)
    assert (webhook["dedup_key"], webhook["correlation_id"]) == ("w", correlation)
    assert email["correlation_id"] == correlation
    assert (email["parent_id"], webhook["parent_id"]) == (None, email["id"])
    # The marked rows are not taken again, as work or as history.
    assert wakeful.json("import", "lipas", "--finished")["moved"] == 0


def test_families_stay_together(wakeful: Commands, db: Session) -> None:
    """Over portions, whatever state they are in; a parent that has joined a live job is that job."""
    there = scalar(db, "select wakeful.enqueue('email', dedup_key => 'there')")
    db.execute(shapes.LIPAS)
    db.execute(
        "insert into jobs (type, payload, parent_job_id, dedup_key, status, last_error, last_error_at) values"
        " ('email', '{}', null, 'there', 'pending', null, null), ('webhook', '{}', 1, null, 'pending', null, null),"
        " ('webhook', '{}', 2, null, 'completed', null, null),"
        " ('webhook', '{}', 3, null, 'dead', 'gone', '2024-05-01 12:00+00')"
    )
    wakeful.json("import", "lipas", "--finished", "--batch", "2")
    first, second, third = (
        scalar(db, "select job_id from wakeful.imported where legacy_key = %s", key) for key in "123"
    )
    assert first == there
    told = {row["state"]: row for row in jobs(db) if row["id"] != there}
    assert [told[state]["parent_id"] for state in ("ready", "completed", "dead")] == [first, second, third]
    assert scalar(db, "select died_at from wakeful.dead_letters") == datetime(2024, 5, 1, 12, tzinfo=UTC)


def test_a_table_with_a_retry_counter(wakeful: Commands, db: Session) -> None:
    db.execute(shapes.IMPLICATE)
    db.execute(
        "insert into jobs (job_type, payload, status, retry_count, error) values"
        " ('implicate_refresh', '{\"entity_ids\": [\"a\"]}', 'pending', 1, 'timeout'),"
        " ('implicate_refresh', '{}', 'completed', 0, null), ('implicate_refresh', '{}', 'failed', 3, 'gone')"
    )
    told = wakeful.json("import", "implicate", "--finished")
    assert (told["inserted"], told["completed"], told["dead"], told["left"]) == (1, 1, 1, {})
    states = {row["state"]: row for row in jobs(db)}
    assert (states["ready"]["attempt"], states["ready"]["max_attempts"]) == (1, 4)
    assert states["completed"]["finished_at"] is not None
    assert (states["dead"]["attempt"], states["dead"]["last_error_message"]) == (3, "gone")
    assert wakeful.json("stats")["total"] == 3
    assert scalar(db, "select wakeful.requeue(id) is not null from wakeful.dead_letters")


def test_a_table_of_organisations(wakeful: Commands, db: Session) -> None:
    db.execute(shapes.HARMONYK)
    db.execute(
        "insert into jobs (type, org_id, payload, next_run_at) values ('vault.index', %s, '{\"n\": 1}', null),"
        " ('vault.index', null, '{\"n\": 2}', now() + interval '1 hour')",
        [ITEM],
    )
    assert wakeful.json("import", "harmonyk")["moved"] == 2
    one, two = jobs(db)
    assert (one["tenant"], one["state"], two["tenant"], two["state"]) == (str(ITEM), "ready", None, "scheduled")


def test_rows_in_progress_move_only_when_their_claim_has_aged(wakeful: Commands, db: Session) -> None:
    db.execute(shapes.LITEVAULT)
    for age in (timedelta(hours=2), timedelta(minutes=1), None):
        db.execute(
            "insert into enrichment_outbox (item_id, status, claimed_at)"
            " values (%s, 'IN_PROGRESS', now() - %s::interval)",
            [ITEM, age],
        )
    assert wakeful.json("import", "litevault")["left"] == {"IN_PROGRESS": 3}
    told = wakeful.json("import", "litevault", "--aged", "1h")
    assert (told["moved"], told["left"]) == (1, {"IN_PROGRESS": 2})
    assert scalar(db, "select state from wakeful.jobs") == "ready"


def test_the_ledger_finds_a_job_by_the_key_it_had(wakeful: Commands, db: Session) -> None:
    db.execute(shapes.HARMONYK)
    key = scalar(db, "insert into jobs (type) values ('t') returning id")
    wakeful.json("import", "harmonyk", "--source", "old")
    [row] = query(db, "select j.metadata from wakeful.imports i join wakeful.jobs j on j.id = i.job_id")
    assert row["metadata"] == {"imported_from": {"source": "old", "key": str(key)}}
    assert scalar(db, "select legacy_key from wakeful.imports where source = 'old'") == str(key)
