// `pinfold mcp` for the official conformance suite, which reaches servers over HTTP alone. Between
// them stand the official transports, which pass messages on as they are; each HTTP session has a
// server of its own. Since the revision 2026-07-28 there are no sessions: then one server answers all,
// and a request is answered by JSON, or by a stream where something is reported before. Prints the address;
// ends with its standard input.
//
// The suite calls tools by names that only a server written for it has. Where a tool of pinfold's
// can do what such a name stands for, the call goes there; the answer is that tool's, untouched.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

const standIns = {
  test_simple_text: { name: "read", arguments: { path: "text.txt" } },
  test_image_content: { name: "read", arguments: { path: "image.png" } },
  test_error_handling: { name: "read", arguments: { path: "missing" } },
  test_tool_with_progress: {
    name: "bash",
    // Progress is reported with what is written, at most once a second.
    arguments: { command: "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.6; done" },
  },
};

function stoodIn(message) {
  const standIn = message.method === "tools/call" && standIns[message.params?.name];
  return standIn ? { ...message, params: { ...message.params, ...standIn } } : message;
}

const sessions = new Map();
// One end may leave while the other speaks; a scenario that misses the message says so.
const gone = (error) => console.error(String(error));

async function open() {
  const server = new StdioClientTransport({ command: process.env.PINFOLD, args: ["mcp"] });
  const http = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => sessions.set(id, http),
    onsessionclosed: (id) => sessions.delete(id),
  });
  // A notification goes where the request is answered that it is about.
  const asked = new Map();
  http.onmessage = (message) => {
    const token = message.params?._meta?.progressToken;
    if (token !== undefined) asked.set(token, message.id);
    server.send(stoodIn(message)).catch(gone);
  };
  server.onmessage = (message) => {
    const relatedRequestId = asked.get(message.params?.progressToken);
    http.send(message, { relatedRequestId }).catch(gone);
  };
  http.onclose = () => server.close();
  await server.start();
  await http.start();
  return http;
}

// Who waits for the server of all, by the number under which it was asked.
const waiting = new Map();
let ofAll;
let asked = 0;

async function openForAll() {
  const server = new StdioClientTransport({ command: process.env.PINFOLD, args: ["mcp"] });
  server.onmessage = (message) => {
    const token = message.params?.progressToken;
    const of = [...waiting.entries()].find(([id, one]) => id === message.id || one.token === token);
    if (of) of[1].hear(message);
  };
  await server.start();
  return server;
}

// The statuses of the revision's transport for faults (basic/transports/streamable-http).
const statuses = { "-32601": 404, "-32602": 400, "-32021": 400, "-32022": 400 };

async function answerAlone(text, response) {
  const message = JSON.parse(text);
  ofAll ??= openForAll();
  const server = await ofAll;
  if (message.id === undefined) {
    await server.send(message);
    return response.writeHead(202).end();
  }
  const [id, own] = [message.id, ++asked];
  const event = (said) => response.write(`event: message\ndata: ${JSON.stringify(said)}\n\n`);
  const hear = (said) => {
    if (said.id === undefined) {
      if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream" });
      return event(said);
    }
    waiting.delete(own);
    said = { ...said, id };
    if (response.headersSent) {
      event(said);
      return response.end();
    }
    const status = statuses[said.error?.code] ?? 200;
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(said));
  };
  waiting.set(own, { hear, token: message.params?._meta?.progressToken ?? Symbol("none") });
  await server.send({ ...stoodIn(message), id: own });
}

async function textOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

const listener = createServer(async (request, response) => {
  if (request.headers["mcp-protocol-version"] > "2026") {
    return answerAlone(await textOf(request), response);
  }
  const id = request.headers["mcp-session-id"];
  if (id && !sessions.has(id)) return response.writeHead(404).end();
  const http = sessions.get(id) ?? (await open());
  await http.handleRequest(request, response);
});
listener.listen(0, "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${listener.address().port}/mcp`);
});
process.stdin.resume().on("end", async () => {
  await Promise.all([...sessions.values()].map((http) => http.close()));
  await (await ofAll)?.close();
  process.exit();
});
