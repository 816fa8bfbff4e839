// What Harmonyk does in the background: index a document for its organisation, send a digest.
import type { Pool } from "pg";
import type { ClaimedJob } from "./repository.ts";
import type { Handlers } from "./tick.ts";

export const SCHEMA = `
  create table if not exists document_index (org_id text not null, document text not null, words integer not null,
    primary key (org_id, document));
  create table if not exists usage_event (org_id text, job_id uuid not null, type text not null, outcome text not null,
    duration_ms integer not null, at timestamptz not null default now())`;

export function handlers(pool: Pool): Handlers {
  return {
    "vault.index": async (job: ClaimedJob) => {
      const { document, text } = job.payload as { document?: string; text?: string };
      if (!document || text === undefined) throw new Error("a document and its text are needed");
      // An upsert: a second run of the same job changes nothing.
      await pool.query(
        `insert into document_index values ($1, $2, $3)
         on conflict (org_id, document) do update set words = excluded.words`,
        [job.orgId ?? "global", document, text.split(/\s+/).filter(Boolean).length],
      );
    },
    "org.digest": async (job: ClaimedJob) => {
      if (job.payload.broken) throw new Error("the mail server is away");
    },
  };
}
