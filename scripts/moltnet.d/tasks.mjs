// Works on the tasks that pinfold serves with MoltNet's SDK and its daemon. The argument is a repository.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from './moltnet.mjs';
import { jsonCid } from './cid.mjs';
import { end, step } from './steps.mjs';

const { MOLTNET_API_URL: apiUrl, LEAD, WORKER, SEED } = process.env;
const repository = process.argv[2];
const lead = await connect({ apiUrl, agentKey: LEAD });
const worker = await connect({ apiUrl, agentKey: WORKER });
const { currentTeamId: teamId } = await lead.agents.whoami();
const team = { teamId };
const diaryId = '22222222-2222-4222-8222-222222222222';
const freeform = (brief, more = {}, input = {}) =>
  lead.tasks.create({ taskType: 'freeform', diaryId, title: brief, input: { brief, ...input }, ...more }, team);
const status = async (task) => (await lead.tasks.get(task.id)).status;

// The SDK.
await step('whoami', async () => assert.equal((await worker.agents.whoami()).fingerprint, 'FE81-2C12-F3AB-4CE6'));
await step('schemas', async () => assert.ok((await lead.tasks.schemas()).items.length));
const one = await step('create', () => freeform('one'));
await step('create twice with one key', async () => {
  const body = { taskType: 'freeform', diaryId, title: 'twice', input: { brief: 'twice' } };
  const tasks = [];
  for (const _ of [1, 2]) tasks.push(await lead.tasks.create(body, { ...team, idempotencyKey: 'key' }));
  assert.equal(tasks[0].id, tasks[1].id);
  await lead.tasks.cancel(tasks[0].id, { reason: 'enough' });
});
await step('list', async () => assert.equal((await lead.tasks.list({ status: 'queued' }, team)).items[0].id, one.id));
await step('claim', async () => assert.equal((await worker.tasks.claim(one.id, { leaseTtlSec: 60 }, team)).attempt.attemptN, 1));
await step('heartbeat', async () => assert.equal((await worker.tasks.heartbeat(one.id, 1, { leaseTtlSec: 60 })).cancelled, false));
await step('appendMessages', async () => {
  const messages = [{ kind: 'info', payload: { event: 'execute_start' }, timestamp: new Date().toISOString() }];
  assert.equal((await worker.tasks.appendMessages(one.id, 1, { messages })).count, 1);
});
await step('listMessages', async () => assert.equal((await lead.tasks.listMessages(one.id, 1, {}))[0].seq, 0));
const artifact = await step('artifacts.upload', () => worker.tasks.artifacts.upload(
  { taskId: one.id, attemptN: 1 }, new Blob(['hello']), { title: 'a', kind: 'log', contentType: 'text/plain' }, team));
await step('artifacts.list', async () => assert.equal((await lead.tasks.artifacts.list(one.id, team))[0].cid, artifact.cid));
await step('artifacts.download', async () => {
  const { stream } = await lead.tasks.artifacts.download({ taskId: one.id, cid: artifact.cid }, team);
  assert.equal(Buffer.concat(await Array.fromAsync(stream)).toString(), 'hello');
});
const results = [{ id: 'submit-output', kind: 'gate', status: 'pass' }];
const output = { summary: 'done', verification: { inputCid: one?.inputCid, results, passed: true } };
const usage = { inputTokens: 1, outputTokens: 1 };
await step('complete with another address', async () => assert.rejects(
  worker.tasks.complete(one.id, 1, { output, outputCid: one.inputCid, usage }),
  (error) => error.statusCode === 400 && error.validationErrors[0].field === 'outputCid'));
await step('complete', async () => {
  const body = { output, outputCid: await jsonCid(output), usage };
  assert.equal((await worker.tasks.complete(one.id, 1, body)).acceptedAttemptN, 1);
});
await step('listAttempts', async () => assert.equal((await lead.tasks.listAttempts(one.id))[0].status, 'completed'));
await step('readResult', async () => assert.ok(await lead.tasks.readResult(one.id)));
await step('abortAttempt and failAttempt', async () => {
  const task = await freeform('again', { maxAttempts: 3 });
  for (const [n, end] of [
    [1, () => worker.tasks.abortAttempt(task.id, 1, { reason: 'runner_sigterm' })],
    [2, () => worker.tasks.failAttempt(task.id, 2, { error: { code: 'llm_api_error', message: 'x', retryable: true } })],
  ]) {
    await worker.tasks.claim(task.id, {}, team);
    await worker.tasks.heartbeat(task.id, n, {});
    assert.equal((await end()).status, 'queued');
  }
  assert.equal((await lead.tasks.cancel(task.id, { reason: 'enough' })).status, 'cancelled');
  await assert.rejects(worker.tasks.claim(task.id, {}, team), (error) => error.statusCode === 409);
  assert.equal((await lead.tasks.deleteMany({ ids: [task.id] }, team)).accepted, 1);
  await assert.rejects(lead.tasks.get(task.id), (error) => error.statusCode === 404);
});

// The daemon.
const daemon = (...words) => {
  const env = { ...process.env, MOLTNET_AGENT_KEY: WORKER, MOLTNET_PRIVATE_KEY: SEED };
  const common = ['--agent', 'worker', '--profile', 'default', '--team', teamId];
  const program = path.resolve('daemon.mjs');
  const child = spawn(process.execPath, [program, ...words, ...common], { cwd: repository, env });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { said += data; });
  const ended = new Promise((resolve) => child.on('close', (code) => resolve({ code, said })));
  return { child, ended };
};
const until = async (what, holds) => {
  for (let tries = 0; !(await holds()); tries += 1) {
    assert.ok(tries < 600, `waited in vain: ${what}`);
    await sleep(100);
  }
};
const clean = (said) => assert.doesNotMatch(said, /finalize_failed|upload_failed|"level":[56]0/);

const first = await step('once', async () => {
  const task = await freeform('first');
  const { code, said } = await daemon('once', '--task-id', task.id).ended;
  assert.equal(code, 0, said);
  clean(said);
  assert.equal(await status(task), 'completed');
  return task;
});
await step('slot and session of it', async () => {
  const at = { taskId: first.id, attemptN: 1 };
  const { slot } = await worker.runtimeSlots.findLatestForAttempt(at, team);
  assert.deepEqual([slot.state, slot.lastTaskId], ['idle', first.id]);
  assert.equal((await worker.runtimeSlots.list({ state: 'idle' }, team))[0].slot.id, slot.id);
  const session = await worker.runtimeSessions.getForAttempt(at, team);
  assert.deepEqual([session.sessionKind, session.sourceSlotId], ['root', slot.id]);
  const content = Buffer.concat(await Array.fromAsync(await worker.runtimeSessions.download(at, team)));
  assert.equal(content.toString(), `${JSON.stringify({ task: first.id })}\n`);
});
await step('continues a session that is on the server alone', async () => {
  rmSync(path.join(repository, '.moltnet'), { recursive: true });
  const task = await freeform('go on', {}, { continueFrom: { taskId: first.id, attemptN: 1, mode: 'extend' } });
  const { code, said } = await daemon('once', '--task-id', task.id).ended;
  assert.equal(code, 0, said);
  clean(said);
  assert.ok(existsSync(path.join(repository, '.moltnet')));
  const session = await worker.runtimeSessions.getForAttempt({ taskId: task.id, attemptN: 1 }, team);
  const parent = await worker.runtimeSessions.getForAttempt({ taskId: first.id, attemptN: 1 }, team);
  assert.deepEqual([session.sessionKind, session.parentSessionId], ['extend', parent.id]);
});
await step('drain', async () => {
  const [good, bad] = [await freeform('good'), await freeform('please fail', { maxAttempts: 2 })];
  const { code, said } = await daemon('drain', '--task-types', 'freeform').ended;
  assert.equal(code, 1, said);
  assert.doesNotMatch(said, /finalize_failed|upload_failed/);
  assert.deepEqual([await status(good), await status(bad)], ['completed', 'failed']);
  assert.equal((await lead.tasks.listAttempts(bad.id)).length, 2);
});
await step('poll, until it is asked to end', async () => {
  const task = await freeform('sleep 60', { maxAttempts: 2 });
  const { child, ended } = daemon('poll', '--task-types', 'freeform');
  await until('it runs', async () => (await status(task)) === 'running');
  await sleep(500);
  child.kill('SIGTERM');
  await ended;
  assert.equal(await status(task), 'queued');
  await lead.tasks.cancel(task.id, { reason: 'enough' });
});
await step('a task that is cancelled ends at the next heartbeat', async () => {
  const task = await freeform('sleep 120');
  const { ended } = daemon('once', '--task-id', task.id, '--heartbeat-interval-ms', '300');
  await until('it runs', async () => (await status(task)) === 'running');
  await lead.tasks.cancel(task.id, { reason: 'enough' });
  const { code, said } = await ended;
  assert.equal(code, 1, said);
  assert.match(said, /"status": "cancelled"/);
});
end('tasks');
