// Commands on the host that a model asks for, and the user who is asked.

import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";

import { isRecord } from "./connection.ts";
import type { Where } from "./operations.ts";
import type { Sandbox } from "./sandbox.ts";

/** What a command on the host came to. */
export interface HostExecResult {
  host_exec: true;
  executable: string;
  args: string[];
  cwd: string;
  stdout: string;
  stderr?: string;
  /** The status. One that is not 0 is a result, too. */
  exit_code?: number;
  /** Why it did not run. */
  refused?: string;
  truncated?: boolean;
}

/** Asks for a command as the sandbox does: rules and approvals are the same for both. */
export async function hostExec(
  sandbox: Sandbox,
  executable: string,
  args: readonly string[],
  options: { cwd?: string | undefined; signal?: AbortSignal | undefined } = {},
): Promise<HostExecResult> {
  const said = { stdout: "", stderr: "" };
  const onData = (data: Buffer, stream: "stdout" | "stderr"): void => void (said[stream] += data.toString());
  const argv = ["pinfold-host", "--json", executable, ...args];
  await sandbox.exec(argv, { ...options, onData });
  try {
    return JSON.parse(said.stdout) as HostExecResult;
  } catch {
    throw new Error(said.stderr.trim() || "commands on the host are off in this session (--host-exec)");
  }
}

/** The tool `moltnet_host_exec`. */
export function createHostExecTool(where: Where): Parameters<ExtensionAPI["registerTool"]>[0] {
  return {
    name: "moltnet_host_exec",
    label: "host exec",
    description:
      "Run git (push, fetch, ls-remote), gh, moltnet or a configured command on the user's machine, with the user's " +
      "login. The user is asked unless a rule allows it. No shell: arguments are passed as they are.",
    parameters: Type.Object({
      executable: Type.String({ description: "git, gh, moltnet or a configured name" }),
      args: Type.Array(Type.String(), { description: "The arguments, one by one" }),
      cwd: Type.Optional(Type.String({ description: "The directory, in the workspace" })),
    }),
    async execute(_id, params, signal) {
      const { executable, args, cwd } = params as { executable: string; args: string[]; cwd?: string };
      const result = await hostExec(await where(), executable, args, { cwd, signal });
      if (result.refused !== undefined) throw new Error(result.refused);
      return { content: [{ type: "text", text: JSON.stringify(result) }], details: result };
    },
  };
}

/** What the sandbox wants: a connection that no rule names, or a command. */
function question(approval: Record<string, unknown>): { title: string; lines: string[] } {
  const connection = approval["connection"];
  if (isRecord(connection)) {
    const { host, port, protocol } = connection;
    return { title: "Let the sandbox reach this host?", lines: [`${host}:${port}`, `by ${protocol}`] };
  }
  const lines = [String(approval["command"]), `in ${String(approval["cwd"])}`];
  return { title: "Run this on your machine?", lines };
}

/** Has the user answer what the sandbox asks for. Without a screen nobody is there: pinfold denies, with the rule. */
export async function attend(sandbox: Sandbox, context: ExtensionContext): Promise<void> {
  if (!context.hasUI) return;
  const { connection, session } = sandbox;
  const open = new Map<number, AbortController>();
  connection.on("approvals.settled", (params) => open.get(Number(params["id"]))?.abort());
  // One question at a time; the others wait behind it.
  let last = Promise.resolve();
  connection.on("approvals.asked", ({ approval }) => {
    if (!isRecord(approval)) return;
    const id = Number(approval["id"]);
    const abort = new AbortController();
    open.set(id, abort);
    last = last.then(async () => {
      if (abort.signal.aborted) return;
      const details = Array.isArray(approval["details"]) ? approval["details"].map(String) : [];
      const { title, lines } = question(approval);
      const text = [...lines, ...details].join("\n");
      const yes = await context.ui.confirm(title, text, { signal: abort.signal });
      open.delete(id);
      if (abort.signal.aborted) return;
      const reason = yes ? {} : { reason: "the user said no" };
      const answer = yes ? "once" : "deny";
      await connection.call("approvals.answer", { session, id, answer, ...reason }).catch(() => {});
    });
  });
  await connection.call("approvals.watch", { session });
}
