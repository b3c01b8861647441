// A worker of MoltNet's task API: claim, execute, report.

import { type ApiOptions, httpCalls, statusOf, type TaskCalls } from "./calls.ts";
import {
  type ClaimedTask,
  isRetryable,
  type TaskMessage,
  type TaskOutput,
  type TaskReporter,
  type TaskSource,
  type TaskUsage,
} from "./task.ts";

/** An API by its address, or the SDK's agent. */
export type ApiTaskSourceOptions = (ApiOptions | { agent: { tasks: TaskCalls } }) & {
  taskId: string;
  /** Seconds; 300 for none. */
  leaseTtlSec?: number;
  profileId?: string;
};

/** An API by its address, or the tasks of the SDK's agent. */
export type ApiTaskReporterOptions = (ApiOptions | { tasks: TaskCalls }) & {
  leaseTtlSec?: number;
  /** Milliseconds between signs of life; 60 000 for none. */
  heartbeatIntervalMs?: number;
  /** Messages that are sent at once; 50 for none. */
  maxBatchSize?: number;
  /** Milliseconds that a message waits for others; 200 for none. */
  flushIntervalMs?: number;
};

/** One task, claimed under a lease. */
export class ApiTaskSource implements TaskSource {
  readonly #options: ApiTaskSourceOptions;
  #isClaimed = false;

  constructor(options: ApiTaskSourceOptions) {
    this.#options = options;
  }

  /** Throws if somebody else has the task. */
  async claim(): Promise<ClaimedTask | null> {
    if (this.#isClaimed) return null;
    const { taskId, leaseTtlSec = 300, profileId } = this.#options;
    const calls = "agent" in this.#options ? this.#options.agent.tasks : httpCalls(this.#options);
    const body = { leaseTtlSec, ...(profileId === undefined ? {} : { profileId }) };
    const { task, attempt, traceHeaders } = await calls.claim(taskId, body);
    this.#isClaimed = true;
    return { task, attemptN: attempt.attemptN, profileId, traceHeaders: traceHeaders ?? {} };
  }

  async close(): Promise<void> {}
}

/** How many messages are kept that could not be sent. */
const MOST_KEPT = 150;
/** How often the first sign of life is tried: a server may not know yet who has the task. */
const OPENINGS = 5;

/** Reports to an API: signs of life, the first one at once, and messages in batches. */
export class ApiTaskReporter implements TaskReporter {
  readonly #calls: TaskCalls;
  readonly #options: ApiTaskReporterOptions;
  readonly #cancel = new AbortController();
  #attempt: { taskId: string; attemptN: number } | undefined;
  #beats: NodeJS.Timeout | undefined;
  #flushes: NodeJS.Timeout | undefined;
  #kept: (TaskMessage & { timestamp: string })[] = [];
  #sending: Promise<void> = Promise.resolve();
  #failure: Error | undefined;
  #usage: TaskUsage | undefined;

  constructor(options: ApiTaskReporterOptions) {
    this.#options = options;
    this.#calls = "tasks" in options ? options.tasks : httpCalls(options);
  }

  get cancelSignal(): AbortSignal {
    return this.#cancel.signal;
  }

  getUsage(): TaskUsage | undefined {
    return this.#usage;
  }

  async open(attempt: { taskId: string; attemptN: number }): Promise<void> {
    const { taskId, attemptN } = attempt;
    if (this.#attempt?.taskId === taskId && this.#attempt.attemptN === attemptN) return;
    this.#stop();
    this.#attempt = { taskId, attemptN };
    for (let opening = 1; ; opening += 1) {
      try {
        await this.#beat();
        break;
      } catch (error) {
        if (statusOf(error) !== 403 || opening === OPENINGS) throw error;
        await new Promise((resolve) => setTimeout(resolve, 100 * opening));
      }
    }
    const interval = this.#options.heartbeatIntervalMs ?? 60_000;
    if (interval <= 0 || this.#cancel.signal.aborted) return;
    // A sign of life that is lost is made good by the next one, within the lease.
    this.#beats = setInterval(() => void this.#beat().catch(() => {}), interval);
    this.#beats.unref();
  }

  async record(message: TaskMessage): Promise<void> {
    this.#throwFailure();
    this.#kept.push({ ...message, timestamp: new Date().toISOString() });
    const { maxBatchSize = 50, flushIntervalMs = 200 } = this.#options;
    if (this.#kept.length >= maxBatchSize) {
      await this.#flush();
      this.#throwFailure();
    } else {
      this.#flushes ??= setTimeout(() => void this.#flush(), flushIntervalMs).unref();
    }
  }

  async finalize(usage: TaskUsage): Promise<void> {
    this.#usage = usage;
    this.#stop();
    await this.#flush();
  }

  async close(): Promise<void> {
    this.#stop();
  }

  #stop(): void {
    clearInterval(this.#beats);
    clearTimeout(this.#flushes);
    this.#flushes = undefined;
  }

  /** What failed since the last call. */
  #throwFailure(): void {
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure;
  }

  async #beat(): Promise<void> {
    if (this.#attempt === undefined) return;
    const { taskId, attemptN } = this.#attempt;
    const { leaseTtlSec } = this.#options;
    const answer = await this.#calls.heartbeat(taskId, attemptN, leaseTtlSec === undefined ? {} : { leaseTtlSec });
    if (answer.cancelled === true) {
      clearInterval(this.#beats);
      this.#cancel.abort(new Error(answer.cancelReason ?? "the task was cancelled"));
    }
  }

  /** Sends what is kept, one batch after the other, so that the server gives it numbers in this order. */
  #flush(): Promise<void> {
    clearTimeout(this.#flushes);
    this.#flushes = undefined;
    this.#sending = this.#sending.then(async () => {
      const attempt = this.#attempt;
      const messages = this.#kept;
      if (attempt === undefined || messages.length === 0) return;
      this.#kept = [];
      try {
        await this.#calls.appendMessages(attempt.taskId, attempt.attemptN, { messages });
      } catch (error) {
        this.#kept = [...messages, ...this.#kept].slice(-MOST_KEPT);
        this.#failure = new Error(`append messages failed: ${(error as Error).message}`);
      }
    });
    return this.#sending;
  }
}

export type TaskExecutor = (task: ClaimedTask, reporter: TaskReporter) => Promise<TaskOutput>;

export interface AgentRuntimeOptions {
  source: TaskSource;
  makeReporter: (task: ClaimedTask) => TaskReporter;
  executeTask: TaskExecutor;
  /** Called after each task, before the next one is claimed. What it throws is logged, and ends nothing. */
  onTaskFinished?: (output: TaskOutput, task: ClaimedTask) => void | Promise<void>;
}

/** Does the tasks of a source until there are none. */
export class AgentRuntime {
  readonly #options: AgentRuntimeOptions;
  #state: "idle" | "running" | "stopped" = "idle";
  #isStopping = false;
  #processed = 0;
  #current: string | null = null;

  constructor(options: AgentRuntimeOptions) {
    this.#options = options;
  }

  getStatus(): { state: "idle" | "running" | "stopped"; tasksProcessed: number; currentTaskId: string | null } {
    return { state: this.#state, tasksProcessed: this.#processed, currentTaskId: this.#current };
  }

  /** What came of each task, in the order of claiming. That one fails is no error here. */
  async start(): Promise<TaskOutput[]> {
    if (this.#state !== "idle") throw new Error(`AgentRuntime: cannot start when ${this.#state}`);
    this.#state = "running";
    const outputs: TaskOutput[] = [];
    try {
      while (!this.#isStopping) {
        const claimed = await this.#options.source.claim();
        if (claimed === null) break;
        this.#current = claimed.task.id;
        const output = await this.#execute(claimed);
        outputs.push(output);
        this.#processed += 1;
        this.#current = null;
        try {
          await this.#options.onTaskFinished?.(output, claimed);
        } catch (error) {
          console.error(`onTaskFinished: ${(error as Error).message}`);
        }
      }
    } finally {
      this.#current = null;
      this.#state = "stopped";
      await this.#options.source.close();
    }
    return outputs;
  }

  /** Claims no further task. The one that is being done is done. */
  stop(): void {
    this.#isStopping = true;
  }

  async #execute(claimed: ClaimedTask): Promise<TaskOutput> {
    const reporter = this.#options.makeReporter(claimed);
    const { cancelSignal } = reporter;
    const begun = performance.now();
    const failed = (code: string, message: string, usage: TaskUsage): TaskOutput => ({
      taskId: claimed.task.id,
      attemptN: claimed.attemptN,
      status: code === "task_cancelled" ? "cancelled" : "failed",
      output: null,
      outputCid: null,
      usage,
      durationMs: Math.round(performance.now() - begun),
      error: { code, message, retryable: false },
    });
    try {
      const output = await this.#options.executeTask(claimed, reporter);
      // What was cancelled is nobody's any more, whatever came of it.
      return cancelSignal.aborted ? failed("task_cancelled", reasonOf(cancelSignal), output.usage) : output;
    } catch (error) {
      const usage = { inputTokens: 0, outputTokens: 0 };
      if (cancelSignal.aborted) return failed("task_cancelled", reasonOf(cancelSignal), usage);
      return failed("executor_threw", error instanceof Error ? error.message : String(error), usage);
    } finally {
      await reporter.close();
    }
  }
}

export function reasonOf(signal: AbortSignal): string {
  return signal.reason instanceof Error ? signal.reason.message : String(signal.reason);
}

/**
 * Hands in what came of an attempt: `/complete`, or `/fail` for a failure and for output that the server does not take.
 * A cancelled attempt is not handed in.
 */
export async function finishTask(
  api: ApiOptions | { tasks: TaskCalls },
  { task }: ClaimedTask,
  output: TaskOutput,
): Promise<void> {
  const calls = "tasks" in api ? api.tasks : httpCalls(api);
  const { taskId, attemptN, usage } = output;
  const fail = async (error: { code: string; message: string; retryable?: boolean }): Promise<void> => {
    const isLast = attemptN >= (task.maxAttempts ?? 1);
    const body = { error: { ...error, retryable: !isLast && isRetryable(error) } };
    const call = calls.failAttempt?.bind(calls) ?? calls.fail?.bind(calls);
    if (call === undefined) throw new Error("these tasks have no call for a failed attempt");
    await call(taskId, attemptN, body);
  };
  if (output.status === "cancelled") return;
  if (output.status === "failed" || output.output === null) {
    // An attempt that failed before its first sign of life has not started, and could not fail.
    await calls.heartbeat(taskId, attemptN, {});
    await fail(output.error ?? { code: "output_missing", message: "there is no output" });
    return;
  }
  try {
    await calls.complete(taskId, attemptN, { output: output.output, outputCid: output.outputCid, usage });
  } catch (error) {
    const { message, fields } = error as Error & { fields?: readonly string[] };
    const all = [message, ...(fields ?? [])].join("; ");
    const status = statusOf(error);
    // Somebody else decided.
    if (status === 409 || status === 403) throw error;
    if (status === 400) await fail({ code: "output_rejected_by_server", message: all, retryable: false });
    else await fail({ code: "complete_call_failed", message: all });
  }
}
