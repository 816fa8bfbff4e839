-- Ids: UUIDv7, so that new rows land at one end of every index and sort by their making.
-- Promise: a version 7 UUID (RFC 9562): 48 bits of milliseconds, 12 bits of their fraction, 62 random bits.
-- The clock here is the wall clock itself, not the queue's: an id says when it was made, and decides nothing.
-- Locks: none.
create function wakeful.new_id() returns uuid
    language plpgsql volatile parallel safe
    set search_path = pg_catalog, pg_temp
as $$
declare
    micros constant bigint := extract(epoch from clock_timestamp()) * 1000000;
begin
    return encode(overlay(uuid_send(gen_random_uuid()) placing int8send(
        ((micros / 1000) << 16) | (7 << 12) | ((micros % 1000) * 4096 / 1000)) from 1 for 8), 'hex')::uuid;
end
$$;
