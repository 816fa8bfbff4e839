-- Takes the whole schema away and keeps the users' jobs, history, dead letters, counts, switches, schedules, imports and audit as JSON in the
-- schema wakeful_kept, from where the up-migration takes them back.
lock table wakeful.job, wakeful.finished_job, wakeful.dead_letter in access exclusive mode;
select wakeful.fold_tally();

create schema wakeful_kept;
create table wakeful_kept.row (kind text not null, row jsonb not null);
insert into wakeful_kept.row (kind, row)
select 'job', to_jsonb(j) from wakeful.job j
union all select 'finished_job', to_jsonb(f) from wakeful.finished_job f
union all select 'dead_letter', to_jsonb(d) from wakeful.dead_letter d
union all select 'tally', to_jsonb(t) from wakeful.tally t
union all select 'control', to_jsonb(c) from wakeful.control c
union all select 'setting', to_jsonb(s) from wakeful.setting s
union all select 'schedule', to_jsonb(s) from wakeful.schedule s
union all select 'imported', to_jsonb(i) from wakeful.imported i
union all select 'audit', to_jsonb(a) from wakeful.audit a;

-- The ledger of migrations outlives what it tells of.
create schema wakeful_ledger;
alter table wakeful.migration set schema wakeful_ledger;
drop schema wakeful cascade;
create schema wakeful;
alter table wakeful_ledger.migration set schema wakeful;
drop schema wakeful_ledger;
