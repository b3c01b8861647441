// Workers of MoltNet's task API, against `pinfold task serve`. The surroundings come by variables:
// PINFOLD (the program), PI (the command of pi, as JSON), WORKSPACE (a git repository).

import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";

import {
  AgentRuntime,
  type ApiOptions,
  ApiTaskReporter,
  ApiTaskSource,
  type ClaimedTask,
  createPiTaskExecutor,
  executePiTask,
  finishTask,
  jsonCid,
  type TaskCalls,
  type TaskOutput,
  type TaskReporter,
} from "../src/index.ts";
import { httpCalls } from "../src/calls.ts";
import { promptOf } from "../src/prompt.ts";

const workspace = realpathSync(process.env["WORKSPACE"] ?? "");
const pi = JSON.parse(process.env["PI"] ?? "[]") as string[];
const program = process.env["PINFOLD"] ?? "pinfold";
const path = (name: string): string => join(workspace, name);
const model = { provider: "anthropic", model: "claude-sonnet-4-5" };
let server: ChildProcess;
let api: ApiOptions;
let lead: string;

const newKey = (name: string, ...scopes: string[]): string => {
  const words = ["task", "key", "add", name, ...scopes.flatMap((scope) => ["--scope", scope])];
  return execFileSync(program, words, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
};

before(async () => {
  const worker = newKey("worker");
  lead = newKey("lead", "task:read", "task:manage", "agent:profile");
  server = spawn(program, ["task", "serve", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
  const baseUrl = await new Promise<string>((found) => {
    let said = "";
    server.stdout?.on("data", (text) => {
      said += String(text);
      if (said.includes("\n")) found(said.trim());
    });
  });
  api = { baseUrl, auth: () => Promise.resolve(worker) };
});
after(() => server.kill());

const request = async (method: string, where: string, body?: unknown): Promise<Record<string, unknown>> => {
  const headers = { authorization: `Bearer ${lead}`, "content-type": "application/json" };
  const given = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(`${api.baseUrl}${where}`, { method, headers, ...given });
  const answer = (await response.json()) as Record<string, unknown>;
  assert.ok(response.ok, JSON.stringify(answer));
  return answer;
};

/** Queues a task and returns its id. */
const queue = async (more: Record<string, unknown> = {}): Promise<string> => {
  const diaryId = "22222222-2222-4222-8222-222222222222";
  const task = { taskType: "freeform", diaryId, title: "t", input: { brief: "say where you are" }, ...more };
  return String((await request("POST", "/tasks", task))["id"]);
};

/** Works on one task and hands it in. */
const work = async (
  taskId: string,
  executeTask: (task: ClaimedTask, reporter: TaskReporter) => Promise<TaskOutput>,
): Promise<TaskOutput> => {
  const runtime = new AgentRuntime({
    source: new ApiTaskSource({ ...api, taskId }),
    makeReporter: () => new ApiTaskReporter({ ...api, heartbeatIntervalMs: 250, flushIntervalMs: 50 }),
    executeTask,
    onTaskFinished: (output, task) => finishTask(api, task, output),
  });
  const [output, ...others] = await runtime.start();
  assert.ok(output !== undefined && others.length === 0);
  assert.deepEqual(runtime.getStatus(), { state: "stopped", tasksProcessed: 1, currentTaskId: null });
  return output;
};

test("content has the address that MoltNet gives it", () => {
  assert.equal(jsonCid({}), "bagaaieraiqjw7i2vwntyuekgvulpp2det2kpwt6cd7tx5ayqybqpmhfk76fa");
  assert.equal(jsonCid({ summary: "done" }), "bagaaierafjymhddg35tn3j32ydr35yeo25jileuythaey4hha3zr26fxogpq");
  const value = { b: 1, a: [1, 2.5, "é"], n: null };
  assert.equal(jsonCid(value), "bagaaierauzagfswzs5uqct2yjpr3fd5fo6cpvcag34zcm2rm7767etacoyra");
});

test("the text of a task names no file and no option of pi's", () => {
  for (const brief of ["@/etc/passwd", "--help", "-"]) {
    const prompt = promptOf({ id: "x", taskType: "freeform", title: null, input: { brief } });
    assert.match(prompt, /^# Task\n/);
    assert.ok(prompt.includes(brief) && prompt.includes("submit_freeform_output"));
  }
  assert.throws(() => promptOf({ id: "x", taskType: "freeform", input: {} }), /no brief/);
});

test("pi does tasks on one snapshot, and what it hands in is accepted", async () => {
  const counted = join(dirname(workspace), "snapshots");
  const counting = join(dirname(workspace), "counting");
  writeFileSync(counting, `#!/bin/sh\necho "$*" >>'${counted}'\nexec '${program}' "$@"\n`, { mode: 0o755 });
  process.env["PINFOLD"] = counting;
  const execute = createPiTaskExecutor({ mountPath: workspace, ...model, pi });
  for (const more of [{}, { input: { brief: "again", successCriteria: { version: 1 } } }]) {
    rmSync(path("inside"), { force: true });
    const taskId = await queue(more);
    const output = await work(taskId, execute);
    assert.equal(output.status, "completed", JSON.stringify(output.error));
    assert.equal(readFileSync(path("inside"), "utf8"), "HOST pinfold\n");
    assert.equal(output.output?.["summary"], "done inside");
    assert.ok(output.usage.inputTokens > 0 && output.usage.outputTokens > 0 && output.usage.toolCalls === 2);
    assert.deepEqual([output.usage.model, output.usage.provider], [model.model, model.provider]);
    const task = await request("GET", `/tasks/${taskId}`);
    assert.deepEqual([task["status"], task["acceptedAttemptN"]], ["completed", 1]);
    const messages = (await request("GET", `/tasks/${taskId}/attempts/1/messages?limit=200`)) as unknown as {
      kind: string;
      seq: number;
      payload: Record<string, unknown>;
    }[];
    assert.deepEqual(messages.map(({ seq }) => seq), messages.map((_, at) => at));
    const started = messages.filter(({ kind }) => kind === "tool_call_start").map(({ payload }) => payload["tool_name"]);
    assert.deepEqual(started, ["bash", "submit_freeform_output"]);
    assert.ok(messages.some(({ kind }) => kind === "turn_end"));
  }
  process.env["PINFOLD"] = program;
  assert.equal(readFileSync(counted, "utf8").split("\n").filter((line) => line.startsWith("snapshot ")).length, 1);
});

test("what goes wrong has a code, and the server hears of it", async () => {
  const built = { snapshot: () => Promise.resolve() };
  const failing = async (options: object, more: Record<string, unknown> = {}): Promise<string> => {
    const taskId = await queue(more);
    const output = await work(taskId, (task, reporter) =>
      executePiTask(task, reporter, { mountPath: workspace, ...model, pi, ...built, ...options }),
    );
    assert.deepEqual([output.status, output.output, output.outputCid], ["failed", null, null]);
    assert.equal((await request("GET", `/tasks/${taskId}`))["status"], "failed");
    return output.error?.code ?? "";
  };
  assert.equal(await failing({ pi: ["false"] }), "session_setup_failed");
  assert.equal(await failing({ pi: [path("none")] }), "session_setup_failed");
  assert.equal(await failing({ pi: ["true"] }), "submit_output_missing");
  assert.equal(await failing({ model: "nobody/none", provider: undefined }), "invalid_model");
  assert.equal(await failing({ provider: "nobody" }), "invalid_model");
  assert.equal(await failing({ maxTurns: 1 }), "max_turns_exceeded");
  assert.equal(await failing({ snapshot: () => Promise.reject(new Error("no disk")) }), "snapshot_failed");
  const context = ["a", "b"].map((slug) => ({ slug, binding: "context_inline", content: "x".repeat(60_000) }));
  assert.equal(await failing({}, { input: { brief: "b", context } }), "prompt_build_failed");

  // No program is started for a repository whose settings would have pi run something.
  const [settings, marker] = [path(".pi/settings.json"), path("started")];
  mkdirSync(dirname(settings), { recursive: true });
  for (const hostile of ['{"shellPath": "x", "theme": "dark"}', '{"packages": ["x"]}', "[]", "{"]) {
    writeFileSync(settings, hostile);
    assert.equal(await failing({ pi: ["touch", marker] }), "session_setup_failed", hostile);
    assert.ok(!existsSync(marker), hostile);
  }
  rmSync(dirname(settings), { recursive: true });
});

test("an executor that throws fails its task alone", async () => {
  const output = await work(await queue(), () => Promise.reject(new Error("of the caller's")));
  assert.deepEqual(output.error, { code: "executor_threw", message: "of the caller's", retryable: false });
});

test("a task that is cancelled ends the agent, and is not handed in", async () => {
  const taskId = await queue();
  const pi = ["sh", "-c", `touch '${path("agent-began")}'; exec sleep 1000`];
  const cancel = async (): Promise<void> => {
    for (let turn = 0; turn < 3000 && !existsSync(path("agent-began")); turn += 1) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await request("POST", `/tasks/${taskId}/cancel`, { reason: "no longer wanted" });
  };
  const snapshot = (): Promise<void> => Promise.resolve();
  const [output] = await Promise.all([
    work(taskId, (task, reporter) => executePiTask(task, reporter, { mountPath: workspace, pi, snapshot })),
    cancel(),
  ]);
  assert.equal(output.status, "cancelled");
  assert.deepEqual([output.error?.code, output.error?.message], ["task_cancelled", "no longer wanted"]);
  assert.equal((await request("GET", `/tasks/${taskId}`))["status"], "cancelled");
});

test("a task that somebody else has is an error, and a second claim gets no task", async () => {
  const taskId = await queue();
  const source = new ApiTaskSource({ ...api, taskId });
  const claimed = await source.claim();
  assert.equal(claimed?.attemptN, 1);
  assert.equal(await source.claim(), null);
  await assert.rejects(new ApiTaskSource({ ...api, taskId }).claim(), { status: 409 });
  await assert.rejects(new ApiTaskSource({ ...api, auth: "wrong", taskId }).claim(), { status: 401 });
});

test("the SDK's agent works in place of an address, and output that a server refuses is a failure", async () => {
  const taskId = await queue({ maxAttempts: 2 });
  const calls = httpCalls(api);
  const failures: unknown[] = [];
  // Before July 2026 it had another name.
  const { failAttempt: _, ...others } = calls;
  const tasks: TaskCalls = {
    ...others,
    fail: (id, attempt, body) => {
      failures.push(body);
      return calls.failAttempt?.(id, attempt, body) ?? Promise.resolve();
    },
  };
  const source = new ApiTaskSource({ agent: { tasks }, taskId });
  const claimed = await source.claim();
  assert.ok(claimed !== null);
  const reporter = new ApiTaskReporter({ tasks, leaseTtlSec: 60, maxBatchSize: 2 });
  await reporter.open({ taskId, attemptN: 1 });
  await reporter.record({ kind: "info", payload: {} });
  await reporter.record({ kind: "info", payload: {} });
  await reporter.finalize({ inputTokens: 1, outputTokens: 2 });
  assert.deepEqual(reporter.getUsage(), { inputTokens: 1, outputTokens: 2 });
  const output = { summary: "done", unknown: 1 };
  const usage = { inputTokens: 1, outputTokens: 2 };
  await finishTask({ tasks }, claimed, {
    ...{ taskId, attemptN: 1, status: "completed" as const, durationMs: 1, usage },
    ...{ output, outputCid: jsonCid(output) },
  });
  const [failure] = failures as { error: Record<string, unknown> }[];
  assert.deepEqual([failure?.error["code"], failure?.error["retryable"]], ["output_rejected_by_server", false]);
});

test("messages that cannot be sent are kept and sent in order, and a token is not sent along a redirect", async () => {
  const sent: unknown[] = [];
  let [isUp, redirected] = [false, 0];
  const other = createServer((_request, response) => {
    redirected += 1;
    response.end("{}");
  });
  const flaky = createServer((incoming, response) => {
    let body = "";
    incoming.on("data", (text) => (body += text));
    incoming.on("end", () => {
      const { messages } = JSON.parse(body) as { messages?: { payload: unknown }[] };
      if (incoming.url?.includes("elsewhere") === true) {
        response.writeHead(307, { location: `http://127.0.0.1:${(other.address() as AddressInfo).port}/` }).end();
      } else if (messages !== undefined && !isUp) response.writeHead(503).end("{}");
      else {
        sent.push(...(messages ?? []).map(({ payload }) => payload));
        response.end("{}");
      }
    });
  });
  for (const one of [other, flaky]) await new Promise<void>((resolve) => one.listen(0, "127.0.0.1", resolve));
  const options = { baseUrl: `http://127.0.0.1:${(flaky.address() as AddressInfo).port}`, auth: "token" };
  const reporter = new ApiTaskReporter({ ...options, maxBatchSize: 2, heartbeatIntervalMs: 0 });
  await reporter.open({ taskId: "t 1", attemptN: 1 });
  await reporter.record({ kind: "info", payload: { at: 0 } });
  await assert.rejects(reporter.record({ kind: "info", payload: { at: 1 } }), /append messages failed/);
  isUp = true;
  await reporter.record({ kind: "info", payload: { at: 2 } });
  await reporter.finalize({ inputTokens: 0, outputTokens: 0 });
  assert.deepEqual(sent, [{ at: 0 }, { at: 1 }, { at: 2 }]);
  await assert.rejects(new ApiTaskSource({ ...options, taskId: "elsewhere" }).claim());
  assert.equal(redirected, 0);
  for (const one of [other, flaky]) one.close();
});
