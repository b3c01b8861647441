// Calls of MoltNet's task API: those of its SDK (`agent.tasks`), or our own over HTTP.

import { isRecord } from "./connection.ts";
import type { Task } from "./task.ts";

export interface Attempt {
  attemptN: number;
  [key: string]: unknown;
}

export interface Heartbeat {
  cancelled?: boolean;
  cancelReason?: string | null;
}

/** What workers call of `agent.tasks`. */
export interface TaskCalls {
  claim(
    taskId: string,
    body: { leaseTtlSec?: number; profileId?: string },
  ): Promise<{ task: Task; attempt: Attempt; traceHeaders?: Record<string, string> }>;
  heartbeat(taskId: string, attemptN: number, body: { leaseTtlSec?: number }): Promise<Heartbeat>;
  appendMessages(taskId: string, attemptN: number, body: { messages: unknown[] }): Promise<unknown>;
  complete(taskId: string, attemptN: number, body: Record<string, unknown>): Promise<unknown>;
  /** The SDK calls it so since July 2026, */
  failAttempt?(taskId: string, attemptN: number, body: Record<string, unknown>): Promise<unknown>;
  /** and so before. */
  fail?(taskId: string, attemptN: number, body: Record<string, unknown>): Promise<unknown>;
}

/** Where the API is, and who calls. */
export interface ApiOptions {
  baseUrl: string;
  /** The bearer token, or who gives it. */
  auth: string | (() => string | Promise<string>);
  teamId?: string | undefined;
}

/** An answer that is not a success. */
export class ApiError extends Error {
  readonly status: number;
  /** What was wrong with which part of the request. */
  readonly fields: readonly string[];

  constructor(url: string, status: number, text: string) {
    let problem: Record<string, unknown> = {};
    try {
      const parsed: unknown = JSON.parse(text);
      if (isRecord(parsed)) problem = parsed;
    } catch {
      // An answer of something between.
    }
    const said = problem["detail"] ?? problem["title"] ?? text.slice(0, 200);
    super(`${url}: ${status} ${String(said)}`);
    this.status = status;
    const errors = Array.isArray(problem["errors"]) ? problem["errors"].filter(isRecord) : [];
    this.fields = errors.map((error) => `${String(error["field"])}: ${String(error["message"])}`);
  }
}

/** The status of an error of ours or of the SDK's, if the server answered. */
export function statusOf(error: unknown): number | undefined {
  if (error instanceof ApiError) return error.status;
  if (!isRecord(error)) return undefined;
  const status = error["status"] ?? error["statusCode"];
  return typeof status === "number" ? status : undefined;
}

/** How often a call is made to a server that has too many. */
const ATTEMPTS = 4;
/** Seconds between them at most. */
const LONGEST_PAUSE = 60;

/** The calls over HTTP. A redirect is an error: the token is for this server alone. */
export function httpCalls({ baseUrl, auth, teamId }: ApiOptions): TaskCalls {
  const post = async (path: readonly (string | number)[], body: unknown): Promise<{ answer: unknown; headers: Headers }> => {
    const token = typeof auth === "string" ? auth : await auth();
    const url = `${baseUrl.replace(/\/+$/, "")}/tasks/${path.map((part) => encodeURIComponent(part)).join("/")}`;
    const headers: Record<string, string> = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    if (teamId !== undefined) headers["x-moltnet-team-id"] = teamId;
    for (let attempt = 1; ; attempt += 1) {
      const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body), redirect: "error" });
      const text = await response.text();
      if (response.ok) return { answer: text === "" ? {} : JSON.parse(text), headers: response.headers };
      if (response.status !== 429 || attempt === ATTEMPTS) throw new ApiError(url, response.status, text);
      const seconds = Number(response.headers.get("retry-after") ?? 1);
      await new Promise((resolve) => setTimeout(resolve, 1000 * Math.min(Math.max(seconds || 1, 1), LONGEST_PAUSE)));
    }
  };
  const call = async (path: readonly (string | number)[], body: unknown): Promise<Record<string, unknown>> => {
    const { answer } = await post(path, body);
    if (!isRecord(answer)) throw new Error(`tasks/${path.join("/")}: the answer is no object`);
    return answer;
  };
  return {
    async claim(taskId, body) {
      const { answer, headers } = await post([taskId, "claim"], body);
      const { task, attempt } = isRecord(answer) ? answer : {};
      if (!isRecord(task) || !isRecord(task["input"]) || !isRecord(attempt) || typeof attempt["attemptN"] !== "number") {
        throw new Error(`tasks/${taskId}/claim: the answer has no task and attempt`);
      }
      const traces = ["traceparent", "tracestate"].flatMap((name) => {
        const value = headers.get(name);
        return value === null ? [] : [[name, value] as const];
      });
      return { task: task as Task, attempt: attempt as Attempt, traceHeaders: Object.fromEntries(traces) };
    },
    heartbeat: (taskId, attemptN, body) => call([taskId, "attempts", attemptN, "heartbeat"], body),
    appendMessages: (taskId, attemptN, body) => call([taskId, "attempts", attemptN, "messages"], body),
    complete: (taskId, attemptN, body) => call([taskId, "attempts", attemptN, "complete"], body),
    failAttempt: (taskId, attemptN, body) => call([taskId, "attempts", attemptN, "fail"], body),
  };
}
