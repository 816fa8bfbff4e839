-- The dedup key of a job's content: task::tenant-or-global::sorted-json.
-- Promise: the same bytes as Python's wakeful.values.dedup, for every payload that jsonb holds; pure functions.
-- Parameters: value, any JSON value (null gives null); task, its name; tenant, null for none; payload, null for {}.
-- Locks: none; no table is read.
--
-- The canonical text: no white space; keys sorted by code point at every level; the escapes of JSON.stringify; numbers
-- as plain decimals without exponent, trailing zeros or negative zero. Equal jsonb values have equal texts.
create function wakeful.canonical_json(value jsonb) returns text
    language plpgsql immutable parallel safe strict
    set search_path = pg_catalog, pg_temp
as $$
begin
    case jsonb_typeof(value)
        when 'object' then
            -- Scalars are written in place: a call for each would cost more than all the rest.
            return '{' || coalesce((
                select string_agg(
                    to_jsonb(member.key)::text || ':' || case
                        when jsonb_typeof(member.value) = 'number' then trim_scale(member.value::numeric)::text
                        when jsonb_typeof(member.value) in ('object', 'array') then wakeful.canonical_json(member.value)
                        else member.value::text end,
                    ',' order by member.key collate "C")
                from jsonb_each(value) as member (key, value)), '') || '}';
        when 'array' then
            return '[' || coalesce((
                select string_agg(
                    case
                        when jsonb_typeof(item.value) = 'number' then trim_scale(item.value::numeric)::text
                        when jsonb_typeof(item.value) in ('object', 'array') then wakeful.canonical_json(item.value)
                        else item.value::text end,
                    ',' order by item.position)
                from jsonb_array_elements(value) with ordinality as item (value, position)), '') || ']';
        when 'number' then
            return trim_scale(value::numeric)::text;
        else
            return value::text;
    end case;
end
$$;

create function wakeful.dedup_key(task text, tenant text, payload jsonb) returns text
    language sql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
    select task || '::' || coalesce(tenant, 'global') || '::' || wakeful.canonical_json(coalesce(payload, '{}'))
$$;
