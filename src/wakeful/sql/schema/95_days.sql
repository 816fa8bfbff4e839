-- The first week of history's partitions.
-- Promise: from here on whoever tends makes the days ahead.
-- Locks: see make_days.
select wakeful.make_days();
