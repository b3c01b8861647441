// The names that programs built on MoltNet import, with what they do there, on pinfold.

import { spawn } from "node:child_process";
import { readFileSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";

import type {
  BashOperations,
  EditOperations,
  ReadOperations,
  WriteOperations,
} from "@earendil-works/pi-coding-agent";

import { createHostExecTool } from "./host.ts";
import { createBashOps, createEditOps, createReadOps, createWriteOps } from "./operations.ts";
import { Sandbox } from "./sandbox.ts";

/** What an executor works with. */
export interface PiTaskOptions {
  /** The identity in `.moltnet/NAME`; none for none. */
  agentName?: string | undefined;
  /** The directory to work in. */
  mountPath: string;
  provider?: string | undefined;
  model?: string | undefined;
  /** Settings instead of the repository's `sandbox.json`. */
  sandboxConfig?: string | undefined;
  /** The command that starts pi, with its first arguments; `pi` by default. */
  pi?: readonly string[] | undefined;
  signal?: AbortSignal | undefined;
}

/** Starts a sandbox for a workspace. (MoltNet resumes a virtual machine here.) */
export function resumeVm(options: PiTaskOptions): Promise<Sandbox> {
  const { agentName: agent, mountPath: cwd, sandboxConfig } = options;
  return Sandbox.start({ cwd, agent, sandboxConfig, options: ["--host-exec"] });
}

/** Builds the system that the settings describe, unless it is there, and returns what pinfold says of it. */
export async function ensureSnapshot(options: PiTaskOptions): Promise<string> {
  const config = options.sandboxConfig;
  const words = ["snapshot", "build", ...(config === undefined ? [] : ["--sandbox-config", config])];
  const program = process.env["PINFOLD"] ?? "pinfold";
  const { output, errors, exitCode } = await run(program, words, options.mountPath, options.signal);
  if (exitCode !== 0) throw new Error(errors.trim() || `pinfold snapshot build: status ${exitCode}`);
  return output.trim();
}

export function createGondolinReadOps(sandbox: Sandbox, _localCwd?: string): ReadOperations {
  return createReadOps(() => Promise.resolve(sandbox));
}

export function createGondolinWriteOps(sandbox: Sandbox, _localCwd?: string): WriteOperations {
  return createWriteOps(() => Promise.resolve(sandbox));
}

export function createGondolinEditOps(sandbox: Sandbox, _localCwd?: string): EditOperations {
  return createEditOps(() => Promise.resolve(sandbox));
}

export function createGondolinBashOps(sandbox: Sandbox, _localCwd?: string): BashOperations {
  return createBashOps(() => Promise.resolve(sandbox));
}

/** The tools that work on the host: so far the one that asks for commands there. */
export function createMoltNetTools(sandbox: Sandbox): ReturnType<typeof createHostExecTool>[] {
  return [createHostExecTool(() => Promise.resolve(sandbox))];
}

/**
 * A path of the host as it is inside, where the workspace keeps its path.
 * @throws `path escapes workspace: PATH`
 */
export function toGuestPath(localCwd: string, path: string, guestWorkspace: string = localCwd): string {
  const below = relative(localCwd, resolve(localCwd, path));
  if (below === ".." || below.startsWith(`..${sep}`) || isAbsolute(below)) {
    throw new Error(`path escapes workspace: ${path}`);
  }
  return join(guestWorkspace, below);
}

/** The repository's main working tree, from any of its working trees. Runs no git. */
export function findMainWorktree(from: string = process.cwd()): string {
  for (let at = realpathSync(from); ; at = dirname(at)) {
    const git = join(at, ".git");
    const about = statSync(git, { throwIfNoEntry: false });
    if (about?.isDirectory()) return at;
    if (about?.isFile()) {
      const own = /^gitdir: (.+)$/m.exec(readFileSync(git, "utf8"))?.[1];
      if (own === undefined) throw new Error(`${git}: not a git file`);
      const directory = resolve(at, own.trim());
      const common = readFileSync(join(directory, "commondir"), "utf8").trim();
      const main = resolve(directory, common);
      return basename(main) === ".git" ? dirname(main) : main;
    }
    if (dirname(at) === at) throw new Error(`not in a git repository: ${from}`);
  }
}

/** An agent's identity. */
export interface AgentCredentials {
  directory: string;
  /** The content of `moltnet.json`. */
  moltnet: unknown;
  /** The variables of its `env` file. */
  env: Record<string, string>;
}

/** Reads the identity in `.moltnet/NAME` of the main working tree. */
export function loadCredentials(agentName: string, from: string = process.cwd()): AgentCredentials {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(agentName)) throw new Error(`not an agent's name: ${agentName}`);
  const root = findMainWorktree(from);
  const directory = join(root, ".moltnet", agentName);
  const moltnet: unknown = JSON.parse(readFileSync(join(directory, "moltnet.json"), "utf8"));
  const env: Record<string, string> = {};
  for (const line of readFileSync(join(directory, "env"), "utf8").split("\n")) {
    const [, name, value] = /^(?:export\s+)?([A-Za-z_]\w*)=(.*)$/.exec(line.trim()) ?? [];
    if (name === undefined || value === undefined) continue;
    env[name] = value.replace(/^(["'])(.*)\1$/, "$2");
  }
  const config = env["GIT_CONFIG_GLOBAL"];
  if (config !== undefined) env["GIT_CONFIG_GLOBAL"] = resolve(root, config);
  return { directory, moltnet, env };
}

/** Puts an agent's variables into this process, until the function that it returns is called. */
export function activateAgentEnv(agentName: string, from: string = process.cwd()): () => void {
  const { env } = loadCredentials(agentName, from);
  const before = Object.keys(env).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, env);
  return () => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  };
}

function run(
  program: string,
  words: readonly string[],
  cwd: string,
  signal: AbortSignal | undefined,
): Promise<{ output: string; errors: string; exitCode: number }> {
  return new Promise((done, failed) => {
    const child = spawn(program, words, { cwd, signal, stdio: ["ignore", "pipe", "pipe"] });
    const said = { output: "", errors: "" };
    child.stdout.setEncoding("utf8").on("data", (text: string) => (said.output += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (said.errors += text));
    child.on("error", failed);
    child.on("close", (code) => done({ ...said, exitCode: code ?? 128 }));
  });
}
