import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { dsn, drive, handlers } from "./drive.mjs";

const worker = { logger: new Logger(() => () => {}) };
const pool = new pg.Pool({ connectionString: dsn, max: 20 });
let utils;

async function open() {
  utils = await makeWorkerUtils({ pgPool: pool, preset: { worker } });
}

async function close() {
  await utils.release();
  await pool.end();
}

async function setup() {
  await open();
  await utils.migrate();
  await close();
}

const enqueue = (handler, n) => utils.addJob(handler, { n });
const enqueueMany = (handler, numbers) =>
  utils.addJobs(numbers.map((n) => ({ identifier: handler, payload: { n } })));

async function work({ slots, batch, handler }) {
  const taskList = {};
  for (const [name, run] of Object.entries(handlers)) taskList[name] = ({ n }) => run(n);
  // Few slots stand for the latency runs, where its defaults serve it best.
  const batching = slots ? {} : { localQueue: { size: batch ?? 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
  const concurrentJobs = slots ?? (handler === "sleep" ? 200 : 24);
  const runner = await run({
    pgPool: pool,
    taskList,
    parsedCronItems: [],
    preset: { worker: { ...worker, concurrentJobs, pollInterval: 2000, ...batching } },
  });
  await runner.promise;
}

await drive({ setup, open, close, enqueue, enqueueMany, work });
