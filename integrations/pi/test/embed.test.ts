// The names that programs of MoltNet import for sandboxes, run for real. The surroundings come by variables:
// PINFOLD (the program), WORKSPACE (a git repository).

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";

import {
  activateAgentEnv,
  Connection,
  createGondolinBashOps,
  createGondolinEditOps,
  createGondolinReadOps,
  createGondolinWriteOps,
  ensureSnapshot,
  findMainWorktree,
  loadCredentials,
  resumeVm,
  type Running,
  Sandbox,
  toGuestPath,
} from "../src/index.ts";

const workspace = realpathSync(process.env["WORKSPACE"] ?? "");
const path = (name: string): string => join(workspace, name);
let sandbox: Sandbox;

before(async () => {
  sandbox = await resumeVm({ mountPath: workspace });
});
after(() => sandbox.close());

test("operations work inside", async () => {
  const [read, write, edit, bash] = [
    createGondolinReadOps(sandbox),
    createGondolinWriteOps(sandbox),
    createGondolinEditOps(sandbox),
    createGondolinBashOps(sandbox),
  ];
  await write.mkdir(path("made/deep"));
  await write.writeFile(path("made/deep/file"), "content");
  assert.equal(readFileSync(path("made/deep/file"), "utf8"), "content");
  assert.equal((await read.readFile(path("made/deep/file"))).toString(), "content");
  await read.access(path("made/deep/file"));
  await assert.rejects(Promise.resolve(read.access(path("none"))), /no such file/);
  await assert.rejects(Promise.resolve(read.readFile("/etc/shadow")), {
    message: "path escapes workspace: /etc/shadow",
  });
  writeFileSync(path("image"), Buffer.from("89504e470d0a1a0a", "hex"));
  assert.equal(await read.detectImageMimeType?.(path("image")), "image/png");
  await edit.access(path("made/deep/file"));
  await edit.writeFile(path("made/deep/file"), "edited");
  assert.equal((await edit.readFile(path("made/deep/file"))).toString(), "edited");
  let said = "";
  const onData = (data: Buffer): void => void (said += data.toString());
  const env = { ...process.env, SECRET: "host" };
  const ended = await bash.exec("hostname; echo secret=$SECRET; exit 5", workspace, { onData, env });
  assert.deepEqual([said, ended.exitCode], ["pinfold\nsecret=\n", 5]);
});

test("a command ends when it is aborted, or its time is over", async () => {
  const bash = createGondolinBashOps(sandbox);
  const onData = (): void => {};
  const abort = new AbortController();
  const running = bash.exec("touch began; sleep 1000", workspace, { onData, signal: abort.signal });
  while (!existsSync(path("began"))) await new Promise((resolve) => setTimeout(resolve, 10));
  abort.abort();
  await assert.rejects(running, { message: "aborted" });
  await assert.rejects(bash.exec("sleep 1000", workspace, { onData, timeout: 0.1 }), {
    message: "timeout:0.1",
  });
});

test("a terminal is typed into, and has the size that it was given", async () => {
  let said = "";
  let terminal: Running | undefined;
  const script = "tty -s && stty size; read line; trap 'stty size; exit 4' WINCH; echo \"<$line>\"; while :; do sleep 0.02; done";
  const ended = await sandbox.exec(["sh", "-c", script], {
    terminal: { columns: 100, rows: 30 },
    onStart: (running) => {
      terminal = running;
      void running.write("typed\n");
    },
    onData: (data, stream) => {
      assert.equal(stream, "stdout");
      said += data.toString();
      if (!said.includes("<typed>")) return;
      // Once: by the next output it may have ended.
      void terminal?.resize({ columns: 90, rows: 20 });
      terminal = undefined;
    },
    timeout: 20,
  });
  assert.match(said, /^(typed\r\n)?30 100\r\n(typed\r\n)?<typed>\r\n20 90\r\n$/);
  assert.deepEqual(ended, { status: 4, timedOut: false });
});

test("a program reads what it is given, and its output and its end come back", async () => {
  const options = { input: "in", output: 3, env: { NAME: "out" } };
  const done = await sandbox.run(["sh", "-c", "cat; printf $NAME; echo e >&2; exit 3"], options);
  assert.deepEqual([done.stdout.toString(), done.stderr.toString()], ["out", "e\n"]);
  assert.deepEqual([done.status, done.timedOut, done.dropped], [3, false, 2]);
  assert.equal((await sandbox.run(["sleep", "1000"], { timeout: 0.1 })).limit, "timeout");

  let said = "";
  const ended = await sandbox.exec(["sh", "-c", "cat; echo end"], {
    input: true,
    onStart: (running) => void running.write("piped ").then(() => running.write("whole\n", true)),
    onData: (data) => void (said += data.toString()),
  });
  assert.deepEqual([said, ended.status], ["piped whole\nend\n", 0]);
  const onStart = (running: Running): void => void running.signal(15);
  assert.equal((await sandbox.exec(["sleep", "1000"], { onStart })).status, 128 + 15);
});

test("sessions share the connection to a server that runs, and a detached one stays", async () => {
  const socket = join(mkdtempSync(join(tmpdir(), "api-")), "socket");
  const server = spawn(process.env["PINFOLD"] ?? "pinfold", ["serve", "--socket", socket], { stdio: "ignore" });
  while (!existsSync(socket)) await new Promise((resolve) => setTimeout(resolve, 10));
  const connection = new Connection({ socket });
  const first = await Sandbox.start({ cwd: workspace, connection, name: "first" });
  const stays = await Sandbox.start({ cwd: workspace, connection, detached: true });
  const listed = await connection.sessions();
  assert.equal(listed.get(first.session), "first");
  assert.ok(listed.has(stays.session) && listed.get(stays.session) === undefined);
  await first.close();
  await stays.close();
  assert.ok(!(await connection.sessions()).has(first.session));
  assert.equal((await stays.run(["true"])).status, 0);
  await connection.close();

  const again = new Connection({ socket });
  assert.ok((await again.sessions()).has(stays.session));
  await again.call("session.stop", { session: stays.session, graceMs: 0 });
  await again.close();
  await assert.rejects(again.sessions(), { message: "pinfold has ended" });
  server.kill();
  await new Promise((resolve) => server.on("close", resolve));
  await assert.rejects(new Connection({ socket }).sessions(), /cannot reach pinfold at/);
});

test("output is as it was written, however it is cut", async () => {
  const bytes: Buffer[] = [];
  const program = ["head", "-c", "3000000", "/dev/urandom"];
  await sandbox.exec(["sh", "-c", `${program.join(" ")} | tee random`], { onData: (data) => bytes.push(data) });
  assert.ok(Buffer.concat(bytes).equals(readFileSync(path("random"))));
});

test("what a caller's own function throws fails its program alone, which is ended", async () => {
  const thrown = new Error("of the caller's");
  const fail = (): never => {
    throw thrown;
  };
  const script = ["sh", "-c", "echo out; echo $$ >pid; exec sleep 1000"];
  await assert.rejects(sandbox.exec(script, { onData: fail }), thrown);
  await assert.rejects(sandbox.exec(script, { onStart: fail }), thrown);
  const alive = async (): Promise<boolean> => (await sandbox.exec(["pgrep", "-x", "sleep"])).status === 0;
  while (await alive()) await new Promise((resolve) => setTimeout(resolve, 10));
  assert.equal((await sandbox.exec(["true"])).status, 0);
});

test("a large answer takes time for its size alone", async () => {
  writeFileSync(path("large"), Buffer.alloc(24_000_000, "a line of text\n"));
  const read = createGondolinReadOps(sandbox);
  const begun = performance.now();
  assert.equal((await read.readFile(path("large"))).length, 24_000_000);
  // Put together again for each piece it took a minute.
  assert.ok(performance.now() - begun < 20_000, `${performance.now() - begun} ms`);
});

test("paths are mapped, and those that leave are refused", () => {
  assert.equal(toGuestPath("/a/b", "c/d"), "/a/b/c/d");
  assert.equal(toGuestPath("/a/b", "/a/b/c", "/workspace"), "/workspace/c");
  assert.equal(toGuestPath("/a/b", "."), "/a/b");
  for (const out of ["..", "../bb", "/a/bb", "/etc/passwd", "c/../../x"]) {
    assert.throws(() => toGuestPath("/a/b", out), { message: `path escapes workspace: ${out}` });
  }
});

test("the main working tree is found from each of them", () => {
  const git = (...words: string[]): void => void execFileSync("git", words, { cwd: workspace });
  assert.equal(findMainWorktree(workspace), workspace);
  mkdirSync(path("below"), { recursive: true });
  assert.equal(findMainWorktree(path("below")), workspace);
  const other = join(dirname(workspace), "other");
  git("worktree", "add", "-q", "-b", "other", other);
  assert.equal(findMainWorktree(other), workspace);
  assert.throws(() => findMainWorktree("/"), /not in a git repository/);
});

test("an identity is read, and its variables come and go", () => {
  const directory = path(".moltnet/robot");
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, "moltnet.json"), '{"identity_id":"x"}');
  writeFileSync(join(directory, "env"), "# words\nROBOT_NAME='r 1'\nexport GIT_CONFIG_GLOBAL=.moltnet/robot/gitconfig\n");
  const credentials = loadCredentials("robot", workspace);
  assert.deepEqual(credentials.moltnet, { identity_id: "x" });
  assert.deepEqual(credentials.env, {
    ROBOT_NAME: "r 1",
    GIT_CONFIG_GLOBAL: path(".moltnet/robot/gitconfig"),
  });
  const restore = activateAgentEnv("robot", workspace);
  assert.equal(process.env["ROBOT_NAME"], "r 1");
  restore();
  assert.equal(process.env["ROBOT_NAME"], undefined);
  assert.throws(() => loadCredentials("../robot", workspace), /not an agent's name/);
});

test("a snapshot is there once it was asked for", async () => {
  assert.match(await ensureSnapshot({ mountPath: workspace }), /.*/);
});

test("once pinfold has gone, nothing is done anywhere", async () => {
  const other = await resumeVm({ mountPath: workspace });
  await other.close();
  await assert.rejects(other.exec(["touch", path("made-outside")]), /pinfold has ended/);
  await assert.rejects(other.read(path("image")), /pinfold has ended/);
  assert.ok(!existsSync(path("made-outside")));
});
