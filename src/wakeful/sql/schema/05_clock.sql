-- The queue's clock: every comparison with time in this schema goes through wakeful.now().
-- Promise: the database's own wall clock, moving within a transaction. Tests replace this one function to
--   travel in time, and open sessions follow at once.
-- Locks: none.
create function wakeful.now() returns timestamptz
    language sql volatile parallel safe
    return pg_catalog.clock_timestamp();

comment on function wakeful.now() is 'The only clock that decides: the wall clock of the database.';
