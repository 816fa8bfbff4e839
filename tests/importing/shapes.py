"""The home-made tables of the seeds, as their documents give them."""

from __future__ import annotations

LITEVAULT = """
create table public.enrichment_outbox (
    id bigint generated always as identity primary key, item_id uuid not null,
    status varchar(20) not null default 'PENDING', attempt_count int not null default 0,
    claimed_at timestamptz, last_error text,
    created_at timestamptz not null default now()
)
"""

# Its phase 0.
LITEVAULT_WITH_LEASES = """
alter table public.enrichment_outbox add column job_type varchar(50) not null default 'enrichment';
alter table public.enrichment_outbox add column run_at timestamptz not null default now();
alter table public.enrichment_outbox add column locked_by varchar(100);
alter table public.enrichment_outbox add column lease_expires_at timestamptz;
alter table public.enrichment_outbox add column last_error_code varchar(50);
alter table public.enrichment_outbox rename column last_error to last_error_message
"""

LIPAS = """
create table public.jobs (
    id bigserial primary key, type text not null, payload jsonb not null, status text not null default 'pending',
    priority int not null default 100, attempts int not null default 0, max_attempts int not null default 3,
    run_at timestamptz not null default now(), created_at timestamptz not null default now(), started_at timestamptz,
    completed_at timestamptz, last_error text, last_error_at timestamptz,
    correlation_id uuid not null default gen_random_uuid(), parent_job_id bigint references public.jobs (id),
    created_by text, dedup_key text,
    constraint jobs_status_check check (status in ('pending', 'processing', 'completed', 'failed', 'dead'))
)
"""

IMPLICATE = """
create table public.jobs (
    id uuid primary key default gen_random_uuid(), job_type text not null, payload jsonb not null default '{}'::jsonb,
    status text not null check (status in ('pending', 'processing', 'completed', 'failed')),
    created_at timestamptz not null default now(), started_at timestamptz, completed_at timestamptz, error text,
    retry_count int not null default 0, max_retries int not null default 3
)
"""

HARMONYK = """
create table public.jobs (
    id uuid primary key default gen_random_uuid(), type text not null, org_id uuid,
    payload jsonb not null default '{}'::jsonb, status text not null default 'queued',
    attempts integer not null default 0, next_run_at timestamptz, last_error text,
    created_at timestamptz not null default now(), updated_at timestamptz not null default now()
)
"""
