// The driver of systems that run on Node: the same verbs, loops and probe file as the Python one.
import fs from "node:fs";

export const dsn = process.env.BENCH_DSN;

const CAPACITY = 1 << 20;
const WARM_UP = 10;
const SLEEP_MS = 5;
const FLUSH_MS = 2;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const file = process.env.BENCH_PROBE ? fs.openSync(process.env.BENCH_PROBE, "r+") : null;

// Node cannot map a file: starts are gathered and written every few milliseconds, neighbours together.
const started = new Map();
let timer = null;

function start(number) {
  started.set(number % CAPACITY, process.hrtime.bigint());
  timer ??= setTimeout(flush, FLUSH_MS);
}

function flush() {
  timer = null;
  const numbers = [...started.keys()].sort((a, b) => a - b);
  for (let first = 0, next; first < numbers.length; first = next) {
    next = first + 1;
    while (next < numbers.length && numbers[next] === numbers[next - 1] + 1) next += 1;
    write(numbers.slice(first, next));
  }
  started.clear();
}

function write(numbers) {
  const times = new BigInt64Array(numbers.map((number) => started.get(number)));
  const runs = Buffer.alloc(numbers.length);
  const place = CAPACITY * 16 + numbers[0];
  fs.readSync(file, runs, 0, runs.length, place);
  for (let index = 0; index < runs.length; index += 1) runs[index] += 1;
  fs.writeSync(file, Buffer.from(times.buffer), 0, times.byteLength, CAPACITY * 8 + numbers[0] * 8);
  fs.writeSync(file, runs, 0, runs.length, place);
}

function send(number) {
  fs.writeSync(file, Buffer.from(new BigInt64Array([process.hrtime.bigint()]).buffer), 0, 8, number * 8);
}

export const handlers = {
  noop: async (n) => start(n),
  sleep: async (n) => {
    start(n);
    await sleep(SLEEP_MS);
  },
};

async function oneByOne(enqueue, { seconds, callers }) {
  await Promise.all(Array.from({ length: callers }, (_, number) => enqueue(number)));
  let number = callers;
  const began = performance.now();
  const end = began + seconds * 1000;
  const call = async () => {
    while (performance.now() < end) await enqueue(number++);
  };
  await Promise.all(Array.from({ length: callers }, call));
  return { jobs: number - callers, seconds: (performance.now() - began) / 1000 };
}

async function inBulk(enqueueMany, jobs, chunk = 1000) {
  const began = process.hrtime.bigint();
  for (let first = 0; first < jobs; first += chunk) {
    await enqueueMany(Array.from({ length: Math.min(chunk, jobs - first) }, (_, index) => first + index));
  }
  return { jobs, seconds: Number(process.hrtime.bigint() - began) / 1e9, began_ns: Number(began) };
}

async function atAPace(enqueue, { jobs, interval_ms: interval }) {
  const one = (number) => {
    send(number);
    return enqueue(number);
  };
  for (let number = jobs; number < jobs + WARM_UP; number += 1) {
    await one(number);
    await sleep(50);
  }
  const began = performance.now() + interval;
  const answers = [];
  for (let number = 0; number < jobs; number += 1) {
    await sleep(Math.max(0, began + number * interval - performance.now()));
    answers.push(one(number));
  }
  await Promise.all(answers);
  return { jobs };
}

async function answer(system, verb, { handler = "noop", ...options }) {
  if (verb === "setup") return system.setup();
  if (verb === "worker") return system.work({ handler, ...options });
  await system.open();
  const enqueue = (number) => system.enqueue(handler, number);
  try {
    if (verb === "one_by_one") return await oneByOne(enqueue, options);
    if (verb === "pace") return await atAPace(enqueue, options);
    if (verb === "bulk") return await inBulk((numbers) => system.enqueueMany(handler, numbers), options.jobs);
  } finally {
    await system.close();
  }
  throw new Error(`unknown verb ${verb}`);
}

export async function drive(system) {
  const [, , verb, argument = "{}"] = process.argv;
  const result = await answer(system, verb, JSON.parse(argument));
  if (verb === "worker") return;
  console.log(`\n${JSON.stringify(result ?? {})}`);
  process.exit(0);
}
