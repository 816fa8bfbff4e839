-- Roles: who may call what. Four cluster-wide roles without login, to be granted to the users' own roles.
-- Promise: an existing role is left as it is; a migrating user who may not create roles still gets a working
--   schema that only its owner can use (the notice says so).
-- Locks: none beyond the catalogue's.
do $$
declare
    name text;
begin
    foreach name in array array['wakeful_producer', 'wakeful_worker', 'wakeful_viewer', 'wakeful_operator'] loop
        begin
            execute pg_catalog.format('create role %I nologin', name);
        exception
            when duplicate_object or unique_violation then null;
            when insufficient_privilege then
                raise notice 'wakeful: role % is missing and % may not create it; ask a superuser to run: create role %',
                    name, current_user, name;
        end;
    end loop;
end
$$;

revoke all on schema wakeful from public;
