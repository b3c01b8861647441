// The official client of the Agent Client Protocol, as an editor has it, and an agent in a sandbox.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";

import { PROTOCOL_VERSION, client, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const [program, ...args] = JSON.parse(process.env.AGENT);
const agent = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => agent.on("close", resolve));
const stream = ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const said = [];
// An agent that says nothing is not waited for.
setTimeout(() => process.exit(3), 100_000).unref();
const app = client({ name: "test" })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    const option = params.options.find(({ kind }) => kind.startsWith("allow"));
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onNotification(methods.client.session.update, ({ params: { update } }) => {
    if (update.sessionUpdate === "agent_message_chunk") said.push(update.content.text);
  });
await app.connectWith(stream, async (context) => {
  const begun = await context.request(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: false, writeTextFile: false } },
  });
  assert.equal(begun.protocolVersion, PROTOCOL_VERSION);
  const session = { cwd: process.cwd(), mcpServers: [] };
  const { sessionId } = await context.request(methods.agent.session.new, session);
  const prompt = [{ type: "text", text: readFileSync(process.env.PROMPT, "utf8") }];
  const { stopReason } = await context.request(methods.agent.session.prompt, { sessionId, prompt });
  assert.equal(stopReason, "end_turn");
});
agent.stdin.end();
setTimeout(() => agent.kill(), 5000).unref();
await ended;
console.log(said.join(""));
