// The repository on wakeful: plain SQL calls, no client library. What it needs to know of a job it holds is the epoch.
import { randomUUID } from "node:crypto";
import type { Pool } from "pg";
import { canRetry, type EnqueueJobInput, getBackoffDelayMs, type JobsRepository, makeJobDedupeKey } from "./jobs.ts";

export interface ClaimedJob {
  id: string;
  type: string;
  orgId: string | null;
  payload: Record<string, unknown>;
  attempts: number;
  maxAttempts: number;
  epoch: string;
  startedAt: number;
}

interface ClaimRow {
  id: string;
  task: string;
  tenant: string | null;
  payload: Record<string, unknown>;
  attempt: number;
  max_attempts: number;
  /** A bigint, which pg hands over as text. */
  epoch: string;
}

const ENQUEUE = `
  select wakeful.enqueue(task => $1, payload => $2, tenant => $3, run_at => $4, dedup_key => $5) as id`;
const CLAIM = `
  select id, task, tenant, payload, attempt, max_attempts, epoch
  from wakeful.claim(worker_id => $1, tasks => $2, want => $3, lease => $4)`;
const USAGE = `
  insert into usage_event (org_id, job_id, type, outcome, duration_ms) values ($1, $2, $3, $4, $5)`;

export class WakefulJobsRepository implements JobsRepository {
  // New for each process: a claim of an earlier one cannot be settled by this one.
  readonly workerId = randomUUID();
  private readonly held = new Map<string, ClaimedJob>();
  private readonly pool: Pool;
  private readonly lease: string;

  constructor(pool: Pool, lease = "5 minutes") {
    this.pool = pool;
    this.lease = lease;
  }

  async enqueue({ type, orgId = null, payload = {}, runAt = null, dedupe = false }: EnqueueJobInput): Promise<string> {
    const key = dedupe ? makeJobDedupeKey(type, orgId, payload) : null;
    const { rows } = await this.pool.query<{ id: string }>(ENQUEUE, [type, JSON.stringify(payload), orgId, runAt, key]);
    return rows[0].id;
  }

  /** At most `limit` jobs that are due, of the types that are handled here. */
  async claim(types: string[], limit: number): Promise<ClaimedJob[]> {
    const { rows } = await this.pool.query<ClaimRow>(CLAIM, [this.workerId, types, limit, this.lease]);
    return rows.map((row) => {
      const job: ClaimedJob = {
        id: row.id,
        type: row.task,
        orgId: row.tenant,
        payload: row.payload,
        attempts: row.attempt,
        maxAttempts: row.max_attempts,
        epoch: row.epoch,
        startedAt: performance.now(),
      };
      this.held.set(job.id, job);
      return job;
    });
  }

  async markSuccess(id: string): Promise<void> {
    await this.settle(id, "success", "select wakeful.complete($1, $2, $3)", []);
  }

  async markFailure(id: string, error: string): Promise<void> {
    const job = this.holding(id);
    const again = canRetry("failed", job.attempts, job.maxAttempts);
    const wait = again ? `${getBackoffDelayMs(job.attempts)} milliseconds` : null;
    const fail = `select wakeful.fail($1, $2, $3, code => 'error', message => $4, retry_in => $5::interval, no_retry => $6)`;
    await this.settle(id, again ? "retry" : "failed", fail, [error, wait, !again]);
  }

  // The usage event and the outcome commit together, so each run is metered once, whatever dies when.
  private async settle(id: string, outcome: string, statement: string, more: unknown[]): Promise<void> {
    const job = this.holding(id);
    this.held.delete(id);
    const client = await this.pool.connect();
    try {
      await client.query("begin");
      await client.query(USAGE, [job.orgId, job.id, job.type, outcome, Math.round(performance.now() - job.startedAt)]);
      await client.query(statement, [job.id, job.epoch, this.workerId, ...more]);
      await client.query("commit");
    } catch (error) {
      await client.query("rollback");
      throw error;
    } finally {
      client.release();
    }
  }

  private holding(id: string): ClaimedJob {
    const job = this.held.get(id);
    if (!job) throw new Error(`job ${id} was not claimed here`);
    return job;
  }
}
