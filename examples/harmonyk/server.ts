// Harmonyk's API: enqueue, tick, usage. `DATABASE_URL` is the database, `PORT` the port, `JOBS_TICK_TOKEN` who may tick.
import { createServer, type IncomingMessage } from "node:http";
import { handlers, SCHEMA } from "./lib/handlers.ts";
import { WakefulJobsRepository } from "./lib/repository.ts";
import { runJobsTick } from "./lib/tick.ts";
import pg from "pg";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const jobs = new WakefulJobsRepository(pool);
const token = process.env.JOBS_TICK_TOKEN ?? "";
const USAGE = `
  select type, outcome, count(*)::int as runs, sum(duration_ms)::int as duration_ms
  from usage_event where org_id is not distinct from $1 group by 1, 2 order by 1, 2`;

class Refusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

interface Asked {
  type?: unknown;
  payload?: Record<string, unknown>;
  runAt?: string;
  dedupe?: boolean;
}

async function body(request: IncomingMessage): Promise<Asked> {
  let text = "";
  for await (const part of request) text += part;
  try {
    return text ? JSON.parse(text) : {};
  } catch {
    throw new Refusal(400, "the body is not JSON");
  }
}

async function answer(request: IncomingMessage): Promise<unknown> {
  const org = (request.headers["x-org-id"] as string | undefined) ?? null;
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://harmonyk");
  switch (`${request.method} ${pathname}`) {
    case "POST /api/jobs": {
      const { type, payload, runAt, dedupe } = await body(request);
      if (typeof type !== "string") throw new Refusal(400, "a type is needed");
      const at = runAt ? new Date(runAt) : null;
      return { id: await jobs.enqueue({ type, orgId: org, payload, runAt: at, dedupe }) };
    }
    case "POST /api/jobs/tick": {
      if (!token || request.headers.authorization !== `Bearer ${token}`) throw new Refusal(401, "not with this token");
      return await runJobsTick(jobs, handlers(pool), Number(searchParams.get("limit") ?? 10));
    }
    case "GET /api/usage":
      return (await pool.query(USAGE, [org])).rows;
  }
  throw new Refusal(404, "nothing is there");
}

await pool.query(SCHEMA);
const server = createServer(async (request, response) => {
  const [status, told] = await answer(request).then(
    (value) => [200, value],
    (error) => [error instanceof Refusal ? error.status : 500, { ok: false, error: error.message }],
  );
  response.writeHead(status as number, { "content-type": "application/json" }).end(JSON.stringify(told));
});
server.listen(Number(process.env.PORT ?? 3000), "127.0.0.1", () => {
  const address = server.address() as { port: number };
  console.log(`harmonyk listens on http://127.0.0.1:${address.port}`);
});
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => server.close(() => pool.end().then(() => process.exit(0))));
}
