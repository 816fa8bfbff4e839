// The words of the jobs system: what is asked for, when a job may start again, and the key under which two asks are one.

export type JobStatus = "queued" | "running" | "success" | "failed";

export const DEFAULT_MAX_ATTEMPTS = 5;
const LONGEST_BACKOFF_MS = 60_000;

export interface EnqueueJobInput {
  type: string;
  orgId?: string | null;
  payload?: Record<string, unknown>;
  runAt?: Date | null;
  /** Make no second job while one with the same type, organisation and payload is queued or running. */
  dedupe?: boolean;
}

export interface JobsRepository {
  enqueue(input: EnqueueJobInput): Promise<string>;
  markSuccess(id: string): Promise<void>;
  markFailure(id: string, error: string): Promise<void>;
}

/** The wait after so many starts: 1, 1, 2, 4, 8 … seconds from none on, a minute at most. */
export function getBackoffDelayMs(attempts: number): number {
  return Math.min(1000 * 2 ** Math.max(Math.min(attempts, 8) - 1, 0), LONGEST_BACKOFF_MS);
}

/** Whether a job in this state may start again. */
export function canRetry(status: JobStatus, attempts: number, maxAttempts = DEFAULT_MAX_ATTEMPTS): boolean {
  return status !== "success" && status !== "running" && attempts < maxAttempts;
}

/** `type::org-or-global::sorted-json`: the same bytes as wakeful.dedup_key in SQL and in Python. */
export function makeJobDedupeKey(type: string, orgId: string | null | undefined, payload: unknown): string {
  return `${type}::${orgId ?? "global"}::${canonicalJson(payload ?? {})}`;
}

/** The one way to write a JSON value: no white space, keys by code point, numbers as plain decimals. */
export function canonicalJson(value: unknown): string {
  if (typeof value === "number") return plainDecimal(value);
  if (typeof value === "bigint") return value.toString();
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  const members = Object.entries(value)
    .filter(([, item]) => item !== undefined)
    .sort(([one], [other]) => byCodePoint(one, other))
    .map(([key, item]) => `${JSON.stringify(key)}:${canonicalJson(item)}`);
  return `{${members.join(",")}}`;
}

// The default sort compares UTF-16 units, and differs beyond U+FFFF: UTF-8 bytes are in the order of code points.
function byCodePoint(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}

function plainDecimal(value: number): string {
  if (!Number.isFinite(value)) throw new TypeError(`${value} is no JSON number`);
  const [, sign, whole, fraction = "", exponent] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value))!;
  const shift = Number(exponent ?? 0);
  const digits = whole + fraction;
  const point = whole.length + shift;
  if (exponent === undefined) return value === 0 ? "0" : `${sign}${whole}${fraction ? `.${fraction}` : ""}`;
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`;
  return `${sign}${digits.padEnd(point, "0")}`;
}
