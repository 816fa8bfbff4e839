-- Ids: UUIDv7, so that new rows land at one end of every index and sort by their making.
-- Promise: a version 7 UUID (RFC 9562): 48 bits of milliseconds, 12 bits of their fraction, 62 random bits.
-- The clock here is the wall clock itself, not the queue's: an id says when it was made, and decides nothing.
-- Locks: none.
create function wakeful.new_id() returns uuid
    language sql volatile parallel safe
    return (
        select encode(overlay(uuid_send(gen_random_uuid()) placing substring(int8send(
                (floor(t.us / 1000)::bigint << 16) | (7 << 12) | ((t.us % 1000) * 4096 / 1000)::bigint) from 1 for 8)
            from 1 for 8), 'hex')::uuid
        from (select floor(extract(epoch from clock_timestamp()) * 1000000) as us) t);
