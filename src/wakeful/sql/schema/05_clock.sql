-- The queue's clock: every comparison with time in this schema goes through wakeful.now().
-- Promise: the database's own wall clock, moving within a transaction. Tests replace this one function to
--   travel in time, and open sessions follow at once.
-- Locks: none.
create function wakeful.now() returns timestamptz
    language sql volatile parallel safe
    return pg_catalog.clock_timestamp();

comment on function wakeful.now() is 'The only clock that decides: the wall clock of the database.';

-- Whether every client can read this moment, in whatever time zone: it is a day inside the years 1 and 9999.
create function wakeful.in_calendar(moment timestamptz) returns boolean
    language sql immutable parallel safe
    return moment between timestamptz '0001-01-02 00:00:00+00' and timestamptz '9999-12-30 00:00:00+00';

-- The longest wait or lease. Counted from any plausible moment, it ends in the calendar.
create function wakeful.longest() returns interval
    language sql immutable parallel safe
    return interval '365000 days';
