// pi does a task: on this machine without a terminal, its tools in a sandbox.

import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { StringDecoder } from "node:string_decoder";
import { fileURLToPath } from "node:url";

import { refusalOfSettings } from "../bin/repository.mjs";
import { isRecord } from "./connection.ts";
import { ensureSnapshot, type PiTaskOptions } from "./moltnet.ts";
import { outputSchema, promptOf, type Submit, SUBMIT, submitTool, verificationOf } from "./prompt.ts";
import { reasonOf, type TaskExecutor } from "./runtime.ts";
import {
  type ClaimedTask,
  jsonCid,
  type TaskError,
  type TaskMessage,
  type TaskOutput,
  type TaskReporter,
  type TaskUsage,
} from "./task.ts";

export interface ExecutePiTaskOptions extends PiTaskOptions {
  /** Turns after which an attempt is ended; 0, the default, for no bound. */
  maxTurns?: number;
  /** Commands over their time after which an attempt is ended; 3 for none, 0 for no bound. */
  maxBashTimeouts?: number;
  /** Resolves once the system that the settings describe is built. By default it is built now. */
  snapshot?: (() => Promise<unknown>) | undefined;
}

/** Bytes of a prompt: one argument of a program has up to 128 KiB (MAX_ARG_STRLEN, execve(2)). */
const LONGEST_PROMPT = 100 << 10;
/** Characters of one event of pi's. */
const LONGEST_EVENT = 64 << 20;
/** Characters of what pi writes to standard error that are kept. */
const MOST_ERRORS = 4000;

/** An executor for an `AgentRuntime`. All its tasks use one snapshot. */
export function createPiTaskExecutor(options: ExecutePiTaskOptions): TaskExecutor {
  let built: Promise<unknown> | undefined;
  const snapshot = (): Promise<unknown> => {
    built ??= ensureSnapshot(options).catch((error: unknown) => {
      // The next task tries again.
      built = undefined;
      throw error;
    });
    return built;
  };
  return (claimed, reporter) => executePiTask(claimed, reporter, { snapshot, ...options });
}

/** A failure with its code. */
class Failed extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Has pi do one attempt. What goes wrong is a result with a code. */
export async function executePiTask(
  claimed: ClaimedTask,
  reporter: TaskReporter,
  options: ExecutePiTaskOptions,
): Promise<TaskOutput> {
  const begun = performance.now();
  const usage: TaskUsage = { inputTokens: 0, outputTokens: 0, toolCalls: 0 };
  if (options.model !== undefined) usage.model = options.model;
  if (options.provider !== undefined) usage.provider = options.provider;
  const ended = (rest: Pick<TaskOutput, "status" | "output" | "outputCid"> & { error?: TaskError }): TaskOutput => ({
    taskId: claimed.task.id,
    attemptN: claimed.attemptN,
    usage,
    durationMs: Math.round(performance.now() - begun),
    ...rest,
  });
  try {
    const output = await attempt(claimed, reporter, options, usage);
    return ended({ status: "completed", output, outputCid: jsonCid(output) });
  } catch (error) {
    const { cancelSignal } = reporter;
    const { message } = error as Error;
    const none = { output: null, outputCid: null };
    if (cancelSignal.aborted || options.signal?.aborted === true) {
      const why = cancelSignal.aborted ? reasonOf(cancelSignal) : "the worker ended it";
      return ended({ status: "cancelled", ...none, error: { code: "task_cancelled", message: why } });
    }
    const code = error instanceof Failed ? error.code : "executor_unexpected_error";
    await reporter.record({ kind: "error", payload: { phase: code, message } }).catch(() => {});
    return ended({ status: "failed", ...none, error: { code, message } });
  } finally {
    await reporter.finalize(usage).catch(() => {});
  }
}

/** Does it, step by step, and returns what was handed in. */
async function attempt(
  claimed: ClaimedTask,
  reporter: TaskReporter,
  options: ExecutePiTaskOptions,
  usage: TaskUsage,
): Promise<Record<string, unknown>> {
  const { task, attemptN } = claimed;
  await step("reporter_failed", () => reporter.open({ taskId: task.id, attemptN }));
  reporter.cancelSignal.throwIfAborted();
  if (outputSchema(task.taskType) === undefined) {
    throw new Failed("unsupported_task_type", `tasks of the type ${task.taskType} are not worked on`);
  }
  const refusal = refusalOfSettings(options.mountPath);
  if (refusal !== undefined) throw new Failed("session_setup_failed", refusal);
  await step("snapshot_failed", options.snapshot ?? (() => ensureSnapshot(options)));
  const prompt = await step("prompt_build_failed", async () => {
    const text = promptOf(task);
    if (Buffer.byteLength(text) <= LONGEST_PROMPT) return text;
    throw new Error("the text of the task is longer than 100 KiB");
  });
  await step("reporter_failed", () => reporter.record({ kind: "info", payload: { event: "execute_start" } }));
  const directory = mkdtempSync(join(tmpdir(), "pinfold-task-"));
  try {
    const submit: Submit = { taskType: task.taskType, file: join(directory, "output.json") };
    await new Session(reporter, options, usage).run(prompt, submit);
    return handedIn(claimed, submit);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function step<T>(code: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof Failed ? error : new Failed(code, (error as Error).message);
  }
}

function handedIn({ task }: ClaimedTask, { taskType, file }: Submit): Record<string, unknown> {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    throw new Failed("submit_output_missing", `the agent ended without a call of ${submitTool(taskType)}`);
  }
  const output: unknown = JSON.parse(text);
  if (!isRecord(output)) throw new Failed("output_validation_failed", "what was handed in is no object");
  const verification = verificationOf(task);
  return verification === undefined ? output : { ...output, verification };
}

/** One run of pi. */
class Session {
  readonly #reporter: TaskReporter;
  readonly #options: ExecutePiTaskOptions;
  readonly #usage: TaskUsage;
  readonly #end = new AbortController();
  #turns = 0;
  #bashTimeouts = 0;
  #hasBegun = false;
  /** What the provider said of its last answer, if that was an error. */
  #providerError: string | undefined;
  #records: Promise<void> = Promise.resolve();

  constructor(reporter: TaskReporter, options: ExecutePiTaskOptions, usage: TaskUsage) {
    this.#reporter = reporter;
    this.#options = options;
    this.#usage = usage;
  }

  async run(prompt: string, submit: Submit): Promise<void> {
    const { exitCode, errors } = await this.#start(prompt, submit);
    await step("reporter_failed", () => this.#records);
    this.#reporter.cancelSignal.throwIfAborted();
    this.#options.signal?.throwIfAborted();
    if (this.#end.signal.aborted) throw this.#end.signal.reason as Failed;
    if (this.#providerError !== undefined) throw new Failed("llm_api_error", this.#providerError);
    if (exitCode === 0) return;
    const said = errors.trim().slice(-800) || `pi ended with ${exitCode}`;
    if (/^Error: (Unknown provider "|Model ".*" not found)/m.test(said)) throw new Failed("invalid_model", said);
    throw new Failed(this.#hasBegun ? "session_prompt_failed" : "session_setup_failed", said);
  }

  #start(prompt: string, submit: Submit): Promise<{ exitCode: number; errors: string }> {
    const { agentName, mountPath, model, pi, provider, sandboxConfig, signal } = this.#options;
    const extension = fileURLToPath(new URL("../src/extension.ts", import.meta.url));
    const [program = "pi", ...first] = pi ?? ["pi"];
    const given: [string, string | undefined][] = [
      ["--agent", agentName ?? "none"],
      ["--sandbox-config", sandboxConfig],
      ["--provider", provider],
      ["--model", model],
    ];
    const words = [
      ...first,
      "--no-extensions",
      ...["-e", extension],
      ...given.flatMap(([name, value]) => (value === undefined ? [] : [name, value])),
      ...["--tools", `read,write,edit,bash,ls,find,grep,${submitTool(submit.taskType)}`],
      ...["--no-skills", "--no-session", "--mode", "json", prompt],
    ];
    const signals = [this.#end.signal, this.#reporter.cancelSignal, ...(signal === undefined ? [] : [signal])];
    const env = { ...process.env, [SUBMIT]: JSON.stringify(submit) };
    return new Promise((done, failed) => {
      const child = spawn(program, words, { cwd: mountPath, env, stdio: ["ignore", "pipe", "pipe"] });
      const end = (): void => void child.kill("SIGTERM");
      const stop = AbortSignal.any(signals);
      stop.addEventListener("abort", end);
      if (stop.aborted) end();
      let errors = "";
      child.stderr.setEncoding("utf8").on("data", (text: string) => (errors = (errors + text).slice(-MOST_ERRORS)));
      this.#readLines(child.stdout);
      child.on("error", (error) => failed(new Failed("session_setup_failed", error.message)));
      // What it has started may have its output open for longer than an attempt that was ended is worth.
      child.on("exit", () => {
        if (stop.aborted) for (const stream of [child.stdout, child.stderr]) stream.destroy();
      });
      child.on("close", (code) => {
        stop.removeEventListener("abort", end);
        done({ exitCode: code ?? 128, errors });
      });
    });
  }

  /** Reads events, one on each line. Only a line feed ends a line: JSON may have other separators in its texts. */
  #readLines(stream: NodeJS.ReadableStream): void {
    const decoder = new StringDecoder("utf8");
    let rest = "";
    stream.on("data", (bytes: Buffer) => {
      const lines = (rest + decoder.write(bytes)).split("\n");
      rest = lines.pop() ?? "";
      lines.forEach((line) => this.#line(line));
      if (rest.length > LONGEST_EVENT) {
        rest = "";
        this.#end.abort(new Failed("session_prompt_failed", "an event of pi's is longer than 64 MiB"));
      }
    });
  }

  #line(line: string): void {
    let event: unknown;
    try {
      event = JSON.parse(line);
    } catch {
      // Not an event.
      return;
    }
    if (isRecord(event)) this.#event(event);
  }

  #event(event: Record<string, unknown>): void {
    const { maxTurns = 0, maxBashTimeouts = 3 } = this.#options;
    switch (event["type"]) {
      case "agent_start":
        this.#hasBegun = true;
        break;
      case "message_update": {
        const update = event["assistantMessageEvent"];
        if (isRecord(update) && update["type"] === "text_delta") {
          this.#record({ kind: "text_delta", payload: { delta: update["delta"] } });
        }
        break;
      }
      case "message_end":
        if (isRecord(event["message"])) this.#message(event["message"]);
        break;
      case "tool_execution_start":
        this.#usage.toolCalls = (this.#usage.toolCalls ?? 0) + 1;
        this.#record({ kind: "tool_call_start", payload: { tool_name: event["toolName"] } });
        break;
      case "tool_execution_end": {
        const { toolName: tool_name, isError: is_error, result } = event;
        const payload = { tool_name, is_error, ...(is_error === true ? { result } : {}) };
        this.#record({ kind: "tool_call_end", payload });
        const isTimeout = tool_name === "bash" && is_error === true && /timed out|timeout:/i.test(JSON.stringify(result));
        this.#bashTimeouts += isTimeout ? 1 : 0;
        if (maxBashTimeouts > 0 && this.#bashTimeouts >= maxBashTimeouts) {
          this.#end.abort(new Failed("max_bash_timeouts_exceeded", `${this.#bashTimeouts} commands ran out of time`));
        }
        break;
      }
      case "turn_end": {
        this.#turns += 1;
        const stop_reason = isRecord(event["message"]) ? event["message"]["stopReason"] : undefined;
        this.#record({ kind: "turn_end", payload: { stop_reason } });
        if (maxTurns > 0 && this.#turns >= maxTurns && stop_reason === "toolUse") {
          this.#end.abort(new Failed("max_turns_exceeded", `it was not done after ${this.#turns} turns`));
        }
        break;
      }
    }
  }

  #message({ role, usage, stopReason, errorMessage }: Record<string, unknown>): void {
    if (role !== "assistant") return;
    this.#providerError = stopReason === "error" ? String(errorMessage ?? "the provider failed") : undefined;
    if (!isRecord(usage)) return;
    const count = (name: string): number => {
      const value = usage[name];
      return typeof value === "number" && value > 0 ? Math.round(value) : 0;
    };
    this.#usage.inputTokens += count("input");
    this.#usage.outputTokens += count("output");
    this.#usage.cacheReadTokens = (this.#usage.cacheReadTokens ?? 0) + count("cacheRead");
    this.#usage.cacheWriteTokens = (this.#usage.cacheWriteTokens ?? 0) + count("cacheWrite");
  }

  /** Reports one after the other. That a message is lost is an error at the end. */
  #record(message: TaskMessage): void {
    this.#records = this.#records.then(() => this.#reporter.record(message));
    this.#records.catch(() => {});
  }
}
