// Reads `[type, org, payload]` a line, writes the dedupe key of each: how the tests compare bytes between languages.
import { createInterface } from "node:readline";
import { makeJobDedupeKey } from "./lib/jobs.ts";

for await (const line of createInterface({ input: process.stdin })) {
  const [type, org, payload] = JSON.parse(line);
  console.log(JSON.stringify(makeJobDedupeKey(type, org, payload)));
}
