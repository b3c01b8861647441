// The diary that the user grants a session, as tools of pi. They are called as the sandbox calls them: the grant, the identity and
// the record of calls are the session's.

import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { Type } from "typebox";

import { type Bytes, fromBytes, isRecord, toBytes } from "./connection.ts";
import type { Sandbox } from "./sandbox.ts";

/** A tool of a diary. */
export interface MemoryTool {
  name: string;
  description: string;
  /** Its parameters, as a JSON Schema. */
  inputSchema: Record<string, unknown>;
}

/** A call of any tool that failed. */
interface Failure {
  toolName: string;
  toolCallId: string;
  timestamp: string;
  input: unknown;
  error: string;
}

/** The program inside. */
const PROGRAM = "pinfold-memory";
/** Bytes of a result at most: the longest rendering and more. */
const LIMIT = 16 << 20;
/** Failed calls that are kept, and characters of what each said. */
const MOST_FAILURES = 100;
const LONGEST_FAILURE = 500;
const REVIEW = "moltnet_review_session_errors";

/** The tools of the session's diary; none if the user grants it no diary. */
export async function memoryTools(sandbox: Sandbox): Promise<MemoryTool[]> {
  const { status, stdout } = await run(sandbox, ["tools"], "").catch(() => ({ status: 127, stdout: "" }));
  return status === 0 ? (JSON.parse(stdout) as MemoryTool[]) : [];
}

/**
 * Calls a tool of the session's diary, and returns the text that it gives.
 * @throws what the tool says, if it fails or refuses
 */
export async function memory(
  sandbox: Sandbox,
  tool: string,
  args: Record<string, unknown>,
  options: { signal?: AbortSignal | undefined } = {},
): Promise<string> {
  // Not an argument: an entry may be longer than one.
  const { status, stdout, stderr } = await run(sandbox, [tool, "-"], JSON.stringify(args), options.signal);
  if (status !== 0) throw new Error((stderr.trim() || stdout.trim() || `${PROGRAM}: status ${status}`));
  return stdout.replace(/\n$/, "");
}

/** Has pi offer the tools of the session's diary, if there is one. */
export async function registerMemoryTools(pi: ExtensionAPI, sandbox: Sandbox, failures: Failures): Promise<void> {
  for (const { name, description, inputSchema } of await memoryTools(sandbox)) {
    pi.registerTool({
      name,
      label: name.replace(/^moltnet_/, "").replaceAll("_", " "),
      description,
      parameters: Type.Unsafe<Record<string, unknown>>(inputSchema),
      async execute(_id, params, signal) {
        const args = params as Record<string, unknown>;
        const text =
          name === REVIEW ? failures.review(args["clear"] === true) : await memory(sandbox, name, args, { signal });
        return { content: [{ type: "text", text }], details: {} };
      },
    });
  }
}

/** The calls of all tools of pi's session that failed. They are written to no diary by themselves. */
export class Failures {
  #kept: Failure[] = [];

  constructor(pi: ExtensionAPI) {
    pi.on("tool_result", ({ toolName, toolCallId, input, content, isError }) => {
      if (!isError) return undefined;
      const texts = content.flatMap((part) => (part.type === "text" ? [part.text] : []));
      const error = texts.join("\n").slice(0, LONGEST_FAILURE) || "unknown error";
      const timestamp = new Date().toISOString();
      this.#kept.push({ toolName, toolCallId, timestamp, input, error });
      if (this.#kept.length > MOST_FAILURES) this.#kept.shift();
      return undefined;
    });
  }

  /** What `moltnet_review_session_errors` gives. */
  review(clear: boolean): string {
    const errors = this.#kept;
    if (clear) this.#kept = [];
    return JSON.stringify({ count: errors.length, errors }, null, 2);
  }
}

async function run(
  sandbox: Sandbox,
  words: readonly string[],
  input: string,
  signal?: AbortSignal,
): Promise<{ status: number; stdout: string; stderr: string }> {
  const { connection, session } = sandbox;
  const program = { argv: [PROGRAM, ...words] };
  const bytes = toBytes(Buffer.from(input, "utf8"));
  const answer = await connection.call("exec.run", { session, program, input: bytes, limit: LIMIT }, signal);
  const said = isRecord(answer) ? answer : {};
  const ended = isRecord(said["ended"]) ? said["ended"] : {};
  const text = (name: string): string => fromBytes((said[name] ?? "") as Bytes).toString("utf8");
  return { status: Number(ended["status"] ?? 127), stdout: text("stdout"), stderr: text("stderr") };
}
