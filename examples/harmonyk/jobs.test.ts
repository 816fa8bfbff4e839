// The pure rules, by node's own test runner: `node --test`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { canonicalJson, canRetry, getBackoffDelayMs, makeJobDedupeKey } from "./lib/jobs.ts";

test("the backoff doubles from a second to a minute", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 1000].map(getBackoffDelayMs), [
    1000, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000,
  ]);
});

test("only what failed or waits may start again, and only so often", () => {
  assert.equal(canRetry("failed", 4), true);
  assert.equal(canRetry("failed", 5), false);
  assert.equal(canRetry("queued", 0), true);
  assert.equal(canRetry("success", 0), false);
  assert.equal(canRetry("running", 0), false);
  assert.equal(canRetry("failed", 1, 1), false);
});

test("the dedupe key does not depend on the order of keys", () => {
  assert.equal(makeJobDedupeKey("t", "org", { b: { y: 1, x: 2 }, a: [1, { d: 1, c: 2 }] }),
    't::org::{"a":[1,{"c":2,"d":1}],"b":{"x":2,"y":1}}');
  assert.equal(makeJobDedupeKey("t", null, undefined), "t::global::{}");
});

test("numbers are plain decimals", () => {
  assert.equal(canonicalJson([1.0, -0, 1e21, 1.5e-7, -2.5e300 > 0, 123.456]),
    '[1,0,1000000000000000000000,0.00000015,false,123.456]');
});
