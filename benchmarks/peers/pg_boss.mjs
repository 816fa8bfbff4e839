import { PgBoss } from "pg-boss";
import { dsn, drive, handlers } from "./drive.mjs";

let boss;

async function start(options) {
  boss = new PgBoss({ connectionString: dsn, max: 20, useListenNotify: true, ...options });
  boss.on("error", (error) => console.error(error));
  boss.on("warning", () => {});
  await boss.start();
}

const open = () => start({ supervise: false, schedule: false });
const close = () => boss.stop({ graceful: false, close: true });

async function setup() {
  await open();
  for (const name of Object.keys(handlers)) await boss.createQueue(name, { notify: true });
  await close();
}

const enqueue = (handler, n) => boss.send(handler, { n });
const enqueueMany = (handler, numbers) => boss.insert(handler, numbers.map((n) => ({ data: { n } })));

async function work({ slots, batch, handler }) {
  await start({});
  const options = {
    // It goes on fetching only after full batches of two or more, else it waits for a notification.
    batchSize: slots ? Math.max(2, slots / 2) : (batch ?? 1000),
    localConcurrency: 2,
    burstWhenBatchFull: true,
    pollingIntervalSeconds: 0.5,
    notifyPollingIntervalSeconds: 2,
  };
  await boss.work(handler, options, async (jobs) => {
    await Promise.all(jobs.map((job) => handlers[handler](job.data.n)));
  });
}

await drive({ setup, open, close, enqueue, enqueueMany, work });
