// The official clients of the Model Context Protocol against `pinfold mcp`: the first of them, and the
// second in both of the ways in which it can speak. They hold every result against the schema that
// the server has reported.
import assert from "node:assert/strict";

const [, , name, mode] = process.argv;
const parts = name.endsWith("/sdk") ? ["/client/index.js", "/client/stdio.js"] : ["", "/stdio"];
const [{ Client }, { StdioClientTransport }] = await Promise.all(
  parts.map((part) => import(name + part)),
);
const transport = new StdioClientTransport({ command: process.env.PINFOLD, args: ["mcp"] });
const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
const strange = [];
client.onerror = (error) => strange.push(String(error));
await client.connect(transport);
const revision = mode === "auto" ? "2026-07-28" : "2025-11-25";
assert.equal(client.getNegotiatedProtocolVersion?.() ?? revision, revision);
assert.equal(client.getServerVersion().name, "pinfold");
assert.ok(client.getServerCapabilities().tools);
assert.match(client.getInstructions(), /sandbox/);
if (mode !== "auto") await client.ping();

const { tools } = await client.listTools();
const call = (name, args = {}, options = {}) =>
  client.callTool({ name, arguments: args }, ...(mode ? [options] : [undefined, options]));
const text = (result) => result.content.map((part) => part.text ?? part.mimeType).join();

// Every tool, once well and once not.
const results = new Map();
const well = [
  ["write", { path: "d/a.txt", content: "one\ntwo\n" }, /8 bytes/],
  ["read", { path: "d/a.txt" }, /^one\ntwo\n$/],
  ["edit", { path: "d/a.txt", edits: [{ old: "two", new: "2" }] }, /1 replaced/],
  ["grep", { pattern: "^2$" }, /^d\/a.txt:2:2\n$/],
  ["find", { pattern: "*.txt" }, /^d\/a.txt\n$/],
  ["ls", {}, /d\/\n/],
  ["stat", { path: "d" }, /"kind":"directory"/],
  ["bash", { command: "hostname" }, /^pinfold\n$/],
  ["session_start", {}, /started/],
  ["session_list", {}, /sessions:/],
  ["snapshot_inspect", {}, /./],
];
for (const [name, args, said] of well) {
  const result = await call(name, args);
  assert.ok(!result.isError, `${name}: ${text(result)}`);
  assert.match(text(result), said, name);
  results.set(name, result);
}
const { sessions } = results.get("session_list").structuredContent;
assert.equal(sessions.length, 2);
assert.ok(!(await call("session_stop", { session: sessions[1] })).isError);
assert.equal(results.get("edit").structuredContent.firstLine, 2);
const named = tools.map((tool) => tool.name).sort();
const known = [...results.keys(), "session_stop", "snapshot_build"].sort();
assert.deepEqual(named, known);

const outside = await call("read", { path: "/etc/shadow" });
assert.ok(outside.isError);
assert.equal(text(outside), "path escapes workspace: /etc/shadow");
const failed = await call("bash", { command: "exit 3" });
assert.ok(failed.isError && text(failed).includes("[status 3]"));
for (const wrong of [{}, { path: 1 }, { path: "a", more: 1 }]) {
  await assert.rejects(call("read", wrong), { code: -32602 });
}
await assert.rejects(call("no_such_tool"), { code: -32602 });

// Progress is reported, and what is taken back ends.
let reported = 0;
const onprogress = ({ progress, message }) => {
  assert.ok(progress > reported && message === "tick");
  reported = progress;
};
const ticks = { command: "for i in 1 2 3 4 5 6; do echo tick; sleep 0.4; done" };
await call("bash", ticks, { onprogress });
assert.ok(reported > 0, "no progress");
const aborted = new AbortController();
const slow = call("bash", { command: "touch began; sleep 1000" }, { signal: aborted.signal });
const ended = assert.rejects(slow);
while ((await call("find", { pattern: "began" })).content[0].text === "");
aborted.abort("enough");
await ended;
while (!(await call("bash", { command: "pgrep -x sleep" })).isError);

const many = Array.from({ length: 50 }, (_, n) => call("bash", { command: `echo ${n}` }));
(await Promise.all(many)).forEach((result, n) => assert.equal(text(result), `${n}\n`));
await client.close();
assert.deepEqual(strange, []);
console.log(`${tools.length} tools`);
