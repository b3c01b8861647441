// `pinfold mcp` for the official conformance suite, which reaches servers over HTTP alone. Between
// them stand the official transports, which pass messages on as they are; each HTTP session has a
// server of its own. Prints the address; ends with its standard input.
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
    // Progress is told with what is written, at most once a second.
    arguments: { command: "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.6; done" },
  },
};

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
    const standIn = message.method === "tools/call" && standIns[message.params.name];
    const token = message.params?._meta?.progressToken;
    if (token !== undefined) asked.set(token, message.id);
    const params = standIn ? { ...message.params, ...standIn } : message.params;
    server.send(standIn ? { ...message, params } : message).catch(gone);
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

const listener = createServer(async (request, response) => {
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
  process.exit();
});
