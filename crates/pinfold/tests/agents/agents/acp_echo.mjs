// An agent of the Agent Client Protocol that says where it runs, and repeats what it is asked.
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { Readable, Writable } from "node:stream";

import { PROTOCOL_VERSION, agent, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const stream = ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
const connection = agent({ name: "echo" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    agentCapabilities: {},
  }))
  .onRequest(methods.agent.session.new, () => ({ sessionId: "one" }))
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const text = params.prompt[0].text;
    const parts = [hostname(), " ", readFileSync("test.sh", "utf8").length > 0, " ", text];
    for (const part of parts) {
      const content = { type: "text", text: String(part) };
      const update = { sessionUpdate: "agent_message_chunk", content };
      await client.notify(methods.client.session.update, { sessionId: "one", update });
    }
    return { stopReason: "end_turn" };
  })
  .connect(stream);
await connection.closed;
