// Tasks from an HTTP API, one at a time, under a lease that is kept alive while one is done.

import type { PiTask, PiTaskExecutor } from "./moltnet.ts";

export interface ApiTaskOptions {
  baseUrl: string;
  taskId: string;
  /** The bearer token, or who gives it. */
  auth: string | (() => string | Promise<string>);
}

export interface ApiTaskSourceOptions extends ApiTaskOptions {
  /** Seconds; 300 for none. */
  leaseTtlSec?: number;
}

export interface ApiTaskReporterOptions extends ApiTaskOptions {
  /** Milliseconds between signs of life; 60 000 for none. */
  heartbeatIntervalMs?: number;
}

/** Where tasks come from. */
export interface TaskSource {
  /** The next task; none if there is none. */
  claim(): Promise<PiTask | undefined>;
}

/** Who is notified of what becomes of a task. */
export interface TaskReporter {
  /** Says that it is begun, and goes on saying so; `cancelled` is called once if it is taken back. */
  start(cancelled: () => void): Promise<void>;
  complete(output: string): Promise<void>;
  fail(code: string, message: string): Promise<void>;
  stop(): void;
}

class ApiTask {
  readonly #options: ApiTaskOptions;

  constructor(options: ApiTaskOptions) {
    this.#options = options;
  }

  async post(what: string, body: unknown): Promise<{ status: number; answer: Record<string, unknown> }> {
    const { baseUrl, taskId, auth } = this.#options;
    const token = typeof auth === "string" ? auth : await auth();
    const url = `${baseUrl.replace(/\/+$/, "")}/tasks/${encodeURIComponent(taskId)}/${what}`;
    const response = await fetch(url, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    const taken = response.status === 409;
    if (!response.ok && !taken) throw new Error(`${url}: ${response.status} ${text.slice(0, 200)}`);
    const answer: unknown = text === "" || taken ? {} : JSON.parse(text);
    return { status: response.status, answer: answer as Record<string, unknown> };
  }
}

/** One task of an HTTP API, claimed under a lease. */
export class ApiTaskSource implements TaskSource {
  readonly #task: ApiTask;
  readonly #lease: number;
  #claimed = false;

  constructor(options: ApiTaskSourceOptions) {
    this.#task = new ApiTask(options);
    this.#lease = options.leaseTtlSec ?? 300;
  }

  async claim(): Promise<PiTask | undefined> {
    if (this.#claimed) return undefined;
    this.#claimed = true;
    const { status, answer } = await this.#task.post("claim", { leaseTtlSec: this.#lease });
    // Somebody else has it.
    if (status === 409) return undefined;
    const prompt = answer["prompt"];
    if (typeof prompt !== "string") throw new Error("the task has no prompt");
    return { prompt };
  }
}

/** Reports to an HTTP API: the first sign of life at once, and the end at `/complete` or `/fail`. */
export class ApiTaskReporter implements TaskReporter {
  readonly #task: ApiTask;
  readonly #interval: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ApiTaskReporterOptions) {
    this.#task = new ApiTask(options);
    this.#interval = options.heartbeatIntervalMs ?? 60_000;
  }

  async start(cancelled: () => void): Promise<void> {
    await this.#task.post("start", {});
    const beat = async (): Promise<void> => {
      const { answer } = await this.#task.post("heartbeat", {});
      if (answer["cancelled"] === true) {
        this.stop();
        cancelled();
      }
    };
    await beat();
    // A sign of life that is lost is made good by the next one, within the lease.
    this.#timer = setInterval(() => void beat().catch(() => {}), this.#interval);
    this.#timer.unref();
  }

  async complete(output: string): Promise<void> {
    await this.#task.post("complete", { output });
  }

  async fail(code: string, message: string): Promise<void> {
    await this.#task.post("fail", { code, message });
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

export interface AgentRuntimeOptions {
  source: TaskSource;
  reporter: TaskReporter;
  executor: PiTaskExecutor;
}

/** Does the tasks of a source until there are none. */
export class AgentRuntime {
  readonly #options: AgentRuntimeOptions;

  constructor(options: AgentRuntimeOptions) {
    this.#options = options;
  }

  /** How many were done. That one fails is reported, and no error here. */
  async run(): Promise<number> {
    const { source, reporter, executor } = this.#options;
    let done = 0;
    for (let task = await source.claim(); task !== undefined; task = await source.claim()) {
      const abort = new AbortController();
      try {
        await reporter.start(() => abort.abort());
        const { output, errors, exitCode } = await executor(task, abort.signal);
        if (exitCode === 0) await reporter.complete(output);
        else await reporter.fail("agent_failed", errors.trim().slice(-800) || `status ${exitCode}`);
      } catch (error) {
        // What was taken back is nobody's any more, whatever came of it.
        const code = abort.signal.aborted ? "cancelled" : "executor_failed";
        await reporter.fail(code, (error as Error).message);
      } finally {
        reporter.stop();
      }
      done += 1;
    }
    return done;
  }
}
