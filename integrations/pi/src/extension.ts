// pi stays on the host with its login; its seven tools, and the user's `!`, work in a sandbox.
//
// Everything is taken over here and now, before pi has started: what is taken over later, or fails
// later, leaves pi with tools that work on the host.

import { writeFileSync, writeSync } from "node:fs";

import {
  createBashTool,
  createEditTool,
  createFindTool,
  createLsTool,
  createReadTool,
  createWriteTool,
  type ExtensionAPI,
  type ExtensionContext,
  VERSION,
} from "@earendil-works/pi-coding-agent";

import { refusalOfExtensions, refusalOfSettings } from "../bin/repository.mjs";
import { createGrepTool } from "./grep.ts";
import { attend, createHostExecTool } from "./host.ts";
import { Failures, registerMemoryTools } from "./memory.ts";
import {
  createBashOps,
  createEditOps,
  createFindOps,
  createLsOps,
  createReadOps,
  createWriteOps,
} from "./operations.ts";
import { outputSchema, type Submit, SUBMIT, submitTool } from "./prompt.ts";
import { Sandbox } from "./sandbox.ts";

/** The first version whose RPC command `bash` asks extensions; before, it runs on the host. */
const SAFE_RPC = [0, 87];

const USAGE = `usage: pi --no-extensions -e @pinfold/pi --agent NAME [--worktree-branch BRANCH] [--sandbox-config FILE]
  --agent            the identity in .moltnet/NAME or .pinfold/identities/NAME; "none" for none
  --worktree-branch  work in a worktree for this branch, next to the repository
  --sandbox-config   settings instead of the repository's sandbox.json`;

export default function pinfold(pi: ExtensionAPI): void {
  refuseWhatIsNotSafe(process.cwd(), process.argv.slice(2));
  const cwd = process.cwd();
  let start: (options: Start) => void = () => {};
  let fail: (error: Error) => void = () => {};
  const sandbox = new Promise<Sandbox>((resolve, reject) => {
    start = (options) => resolve(Sandbox.start(options));
    fail = reject;
  });
  // The user of a tool is notified; nobody else has to listen.
  sandbox.catch(() => {});
  const where = (): Promise<Sandbox> => sandbox;

  pi.registerFlag("agent", { description: "Work in the name of this identity, or none", type: "string" });
  pi.registerFlag("worktree-branch", { description: "Work in a worktree for this branch", type: "string" });
  pi.registerFlag("sandbox-config", { description: "Settings of the sandbox", type: "string" });

  pi.registerTool(createReadTool(cwd, { operations: createReadOps(where) }));
  pi.registerTool(createWriteTool(cwd, { operations: createWriteOps(where) }));
  pi.registerTool(createEditTool(cwd, { operations: createEditOps(where) }));
  pi.registerTool(createBashTool(cwd, { operations: createBashOps(where) }));
  pi.registerTool(createLsTool(cwd, { operations: createLsOps(where) }));
  pi.registerTool(createFindTool(cwd, { operations: createFindOps(where) }));
  pi.registerTool(createGrepTool(cwd, where));
  pi.registerTool(createHostExecTool(where));
  registerSubmit(pi);
  pi.on("user_bash", () => ({ operations: createBashOps(where) }));
  const failures = new Failures(pi);

  let begun = false;
  pi.on("session_start", async (_event, context) => {
    if (!begun) {
      begun = true;
      try {
        start(options(pi, cwd));
      } catch (error) {
        fail(error as Error);
      }
      // Nothing on the host has their names, so they may come once the session says that there is a diary.
      await sandbox.then((live) => registerMemoryTools(pi, live, failures), () => {});
    }
    await show(context, sandbox);
  });
  pi.on("before_agent_start", async (event) => {
    const { cwd: inside } = await sandbox;
    if (inside === cwd) return undefined;
    return { systemPrompt: event.systemPrompt.replaceAll(cwd, inside) };
  });
  // The session of pi that comes next has an extension, and a sandbox, of its own.
  pi.on("session_shutdown", () => sandbox.then((live) => live.close(), () => {}));
}

/** The tool by which the agent of a task hands in its result, for the executor that started pi. */
function registerSubmit(pi: ExtensionAPI): void {
  const given = process.env[SUBMIT];
  if (given === undefined) return;
  const { taskType, file } = JSON.parse(given) as Submit;
  const parameters = outputSchema(taskType);
  if (parameters === undefined) return;
  pi.registerTool({
    name: submitTool(taskType),
    label: "submit",
    description: "Hand in the result of the task. Call it once, when everything is done.",
    parameters,
    async execute(_id, params) {
      // The first one counts.
      writeFileSync(file, JSON.stringify(params), { flag: "wx", mode: 0o600 });
      return { content: [{ type: "text", text: "The result was handed in. You are done." }], details: {} };
    },
  });
}

type Start = Parameters<typeof Sandbox.start>[0];

/** Ends pi where something cannot be made safe. It goes on after an error of an extension's, and loads those of the
 * repository, which come after this one. */
function refuseWhatIsNotSafe(cwd: string, words: readonly string[]): void {
  const mode = words.find((word, at) => word === "--mode=rpc" || (words[at - 1] === "--mode" && word === "rpc"));
  const [major = 0, minor = 0] = VERSION.split(".").map(Number);
  const [safeMajor = 0, safeMinor = 0] = SAFE_RPC;
  if (mode !== undefined && (major < safeMajor || (major === safeMajor && minor < safeMinor))) {
    end(
      `pinfold: in RPC mode pi ${VERSION} runs the command "bash" on this machine, past every extension; ` +
        `use pi ${SAFE_RPC.join(".")} or newer`,
    );
  }
  const own = words.includes("--no-extensions") || words.includes("-ne");
  const refusal = refusalOfSettings(cwd) ?? (own ? undefined : refusalOfExtensions(cwd));
  if (refusal !== undefined) end(refusal);
}

function end(why: string): never {
  writeSync(process.stderr.fd, `${why}\n`);
  process.exit(1);
}

function options(pi: ExtensionAPI, cwd: string): Start {
  const flag = (name: string): string | undefined => {
    const value = pi.getFlag(name);
    return typeof value === "string" && value !== "" ? value : undefined;
  };
  const agent = flag("agent");
  if (agent === undefined) throw new Error(`pinfold: --agent is missing\n${USAGE}`);
  return {
    cwd,
    agent: agent === "none" ? undefined : agent,
    worktreeBranch: flag("worktree-branch"),
    sandboxConfig: flag("sandbox-config"),
    options: ["--host-exec"],
  };
}

/** Shows which boundary the tools are behind, or why there are none. */
async function show(context: ExtensionContext, sandbox: Promise<Sandbox>): Promise<void> {
  try {
    const live = await sandbox;
    const wall = (state: string): void => context.ui.setStatus("pinfold", `pinfold: ${state}`);
    wall(`${live.boundary} · ${live.session}`);
    for (const note of live.notes) context.ui.notify(note, "info");
    await attend(live, context);
    live.connection.onEnd(() => wall("ended; tools are refused"));
  } catch (error) {
    const { message } = error as Error;
    context.ui.setStatus("pinfold", "pinfold: not there; tools are refused");
    context.ui.notify(message, "error");
    if (!context.hasUI) console.error(message);
    throw error;
  }
}
