// One tick: claim what is due, run it in this process, settle each. For a cron call, or a serverless platform's timer.
import type { ClaimedJob, WakefulJobsRepository } from "./repository.ts";

// The SQLSTATE of a settlement that the fence refuses.
const STALE = "WF001";

export type Handler = (job: ClaimedJob) => Promise<void>;
export type Handlers = Record<string, Handler>;

export interface TickResult {
  ok: true;
  claimed: number;
  succeeded: number;
  failed: number;
  /** Claims that were gone before they could be settled: somebody else has those jobs. */
  lost: number;
}

export async function runJobsTick(jobs: WakefulJobsRepository, handlers: Handlers, limit = 10): Promise<TickResult> {
  const result: TickResult = { ok: true, claimed: 0, succeeded: 0, failed: 0, lost: 0 };
  const claimed = await jobs.claim(Object.keys(handlers), limit);
  result.claimed = claimed.length;
  const outcomes = await Promise.all(claimed.map((job) => run(jobs, job, handlers[job.type])));
  for (const outcome of outcomes) result[outcome] += 1;
  return result;
}

async function run(jobs: WakefulJobsRepository, job: ClaimedJob, handler: Handler) {
  let problem: string | undefined;
  try {
    await handler(job);
  } catch (error) {
    problem = error instanceof Error ? error.message : String(error);
  }
  try {
    await (problem === undefined ? jobs.markSuccess(job.id) : jobs.markFailure(job.id, problem));
  } catch (error) {
    if ((error as { code?: string }).code === STALE) return "lost";
    throw error;
  }
  return problem === undefined ? "succeeded" : "failed";
}
