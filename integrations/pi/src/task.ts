// Tasks of MoltNet's API as a worker sees them, and what identifies their content.

import { createHash } from "node:crypto";

export interface Task {
  id: string;
  taskType: string;
  title?: string | null;
  input: Record<string, unknown>;
  inputCid?: string;
  maxAttempts?: number;
  [key: string]: unknown;
}

export interface ClaimedTask {
  task: Task;
  attemptN: number;
  profileId?: string | undefined;
  /** Headers by which traces of the server's go on (`traceparent`). */
  traceHeaders: Record<string, string>;
}

export interface TaskUsage {
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
  toolCalls?: number;
  model?: string;
  provider?: string;
}

export interface TaskError {
  code: string;
  message: string;
  retryable?: boolean;
}

/** What came of an attempt. */
export interface TaskOutput {
  taskId: string;
  attemptN: number;
  status: "completed" | "failed" | "cancelled";
  output: Record<string, unknown> | null;
  outputCid: string | null;
  usage: TaskUsage;
  durationMs: number;
  error?: TaskError;
}

export type TaskMessageKind = "text_delta" | "tool_call_start" | "tool_call_end" | "turn_end" | "error" | "info";

export interface TaskMessage {
  kind: TaskMessageKind;
  payload: Record<string, unknown>;
}

/** Where tasks come from. */
export interface TaskSource {
  /** The next task; null if no task waits. */
  claim(): Promise<ClaimedTask | null>;
  close(): Promise<void>;
}

/** Who hears of an attempt while it runs. */
export interface TaskReporter {
  /** Aborted once the server has cancelled the task, with the reason. */
  readonly cancelSignal: AbortSignal;
  /** Says that the attempt has begun, and goes on saying so. A second call for the same attempt does nothing. */
  open(attempt: { taskId: string; attemptN: number }): Promise<void>;
  record(message: TaskMessage): Promise<void>;
  /** Hands over what is recorded, and says no more. */
  finalize(usage: TaskUsage): Promise<void>;
  close(): Promise<void>;
}

/** The content address of a JSON value, in the order of its keys: CID version 1, codec json, sha2-256, base32. */
export function jsonCid(value: unknown): string {
  const digest = createHash("sha256").update(JSON.stringify(value), "utf8").digest();
  // Version 1; codec 0x0200 and the digest's kind and length as varints.
  return `b${base32(Buffer.concat([Buffer.from([0x01, 0x80, 0x04, 0x12, 0x20]), digest]))}`;
}

/** RFC 4648, section 6, in lower case and without padding. */
function base32(bytes: Buffer): string {
  const letters = "abcdefghijklmnopqrstuvwxyz234567";
  let [text, bits, held] = ["", 0, 0];
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += letters[(held >> (bits - 5)) & 31];
    held &= (1 << bits) - 1;
  }
  return bits === 0 ? text : text + letters[(held << (5 - bits)) & 31];
}

/** Whether a failure may be tried again, by its code and then by its message, as MoltNet's workers decide. */
export function isRetryable({ code, message, retryable }: TaskError): boolean {
  if (retryable !== undefined) return retryable;
  if (RETRYABLE.has(code)) return true;
  if (FINAL.has(code)) return false;
  if (/\b(401|403)\b|invalid (api )?key|validation failed|path escapes workspace/i.test(message)) return false;
  return /\b(429|50[234])\b|timed? ?out|ECONN/i.test(message);
}

const RETRYABLE = new Set([
  "complete_call_failed",
  "llm_api_error",
  "reporter_failed",
  "session_prompt_failed",
  "unsupported_task_type",
]);
const FINAL = new Set([
  "executor_threw",
  "invalid_model",
  "max_bash_timeouts_exceeded",
  "max_turns_exceeded",
  "output_rejected_by_server",
  "output_validation_failed",
  "submit_output_missing",
  "task_cancelled",
]);
