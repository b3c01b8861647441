// MoltNet's daemon with a runtime that does what the brief of a task says: "sleep N", "fail", or nothing.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runAgentDaemonCli } from './moltnet.mjs';
import { jsonCid } from './cid.mjs';

async function attempt({ task, attemptN }, reporter, plan) {
  await reporter.open({ taskId: task.id, attemptN });
  await reporter.record({ kind: 'info', payload: { event: 'execute_start' } });
  const { sessionDir } = plan.sessionPersistence ?? {};
  if (sessionDir) {
    mkdirSync(sessionDir, { recursive: true });
    writeFileSync(path.join(sessionDir, 'session.jsonl'), `${JSON.stringify({ task: task.id })}\n`);
  }
  const { brief } = task.input;
  const end = Date.now() + 1000 * Number(/sleep (\d+)/.exec(brief)?.[1] ?? 0);
  while (Date.now() < end && !reporter.cancelSignal.aborted) await sleep(50);
  const usage = { inputTokens: 1, outputTokens: 2, provider: 'p', model: 'm' };
  await reporter.finalize(usage).catch(() => {});
  const ended = { taskId: task.id, attemptN, usage, durationMs: 1, output: null, outputCid: null };
  if (reporter.cancelSignal.aborted) {
    return { ...ended, status: 'cancelled', error: { code: 'task_cancelled', message: 'it was asked to end' } };
  }
  if (brief.includes('fail')) {
    return { ...ended, status: 'failed', error: { code: 'llm_api_error', message: '503 from the provider' } };
  }
  const results = [{ id: 'submit-output', kind: 'gate', status: 'pass' }];
  const output = { summary: 'done', verification: { inputCid: task.inputCid, results, passed: true } };
  return { ...ended, status: 'completed', output, outputCid: await jsonCid(output) };
}

const runtime = {
  runtimeKind: 'gondolin_pi',
  prepare: async () => ({
    runtimeKind: 'gondolin_pi',
    manifest: { schemaVersion: 'moltnet:executor-manifest:v1', runtime: { kind: 'stub' }, tools: [], executables: [] },
    tools: [],
    executables: [],
    createTaskExecutor: ({ makeExecutionPlan }) => async (claimed, reporter) =>
      attempt(claimed, reporter, await makeExecutionPlan(claimed)),
  }),
};
process.exitCode = await runAgentDaemonCli({ runtime });
