-- The ledger of migrations: which were applied, and from which text.
-- Written only by the migrator, under its advisory lock; read by every client when it starts, hence the grant.
-- Whoever lacks usage on the schema reads nothing all the same.
create schema if not exists wakeful;

create table if not exists wakeful.migration (
    version    integer     primary key check (version > 0),
    name       text        not null,
    checksum   text        not null,
    applied_at timestamptz not null default pg_catalog.clock_timestamp(),
    breaking   boolean     not null
);

comment on table wakeful.migration is 'The migrations applied to this database, with the checksum of their text.';

grant select on wakeful.migration to public;
