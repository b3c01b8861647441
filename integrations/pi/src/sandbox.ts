// A session of pinfold as an agent outside of it sees it.

import { isAbsolute, join, relative, resolve, sep } from "node:path";

import { type Bytes, Connection, fromBytes, isRecord, PinfoldError, toBytes } from "./connection.ts";

/** What a session is to be. */
export interface SandboxOptions {
  /** The directory on the host. */
  cwd: string;
  /** Whose name it works in: `.moltnet/NAME` or `.pinfold/identities/NAME`. */
  agent?: string | undefined;
  /** Work in a worktree for this branch. */
  worktreeBranch?: string | undefined;
  /** Settings instead of the repository's own. */
  sandboxConfig?: string | undefined;
  /** More options of `pinfold run`. */
  options?: readonly string[] | undefined;
  /** The name of the session; it has only an id by default. */
  name?: string | undefined;
  /** The session stays when its connection ends. */
  detached?: boolean | undefined;
  /** The program; `$PINFOLD` or the one on `PATH` by default. */
  program?: string | undefined;
  /** The connection to start it by, which other sessions may use, too; one of its own by default. */
  connection?: Connection | undefined;
}

export interface Entry {
  name: Bytes;
  kind: "file" | "directory" | "link" | "special";
  size?: number;
}

export interface GrepLine {
  path: Bytes;
  line: number;
  kind: "match" | "context";
  text: Bytes;
  cut?: boolean;
}

export interface GrepResult {
  lines: GrepLine[];
  matches: number;
  /** The one file that was named is binary: it was searched up to its first NUL byte. */
  binary?: boolean;
  truncated: boolean;
}

/** How a program is started. */
export interface ProgramOptions {
  cwd?: string | undefined;
  env?: Record<string, string> | undefined;
  /** Seconds. */
  timeout?: number | undefined;
  /** What it may use up with all that it starts; refused where that cannot be enforced. */
  limits?: { memory?: number; pids?: number; milliCpus?: number } | undefined;
  signal?: AbortSignal | undefined;
}

export interface RunOptions extends ProgramOptions {
  /** What it reads from its standard input; nothing by default. */
  input?: string | Uint8Array | undefined;
  /** How many of the last bytes of each stream are kept; a mebibyte by default. */
  output?: number | undefined;
}

export interface ExecOptions extends ProgramOptions {
  /** Whether its standard input is a pipe that `Running.write` fills; it is empty by default. */
  input?: boolean | undefined;
  onData?: ((data: Buffer, stream: "stdout" | "stderr") => void) | undefined;
  /** A terminal of this size instead of pipes; what is written to it comes as `stdout`. */
  terminal?: TerminalSize | undefined;
  /** Called once it runs. */
  onStart?: ((running: Running) => void) | undefined;
}

export interface TerminalSize {
  columns: number;
  rows: number;
}

/** A program that runs. */
export interface Running {
  /** Writes to its terminal or its pipe, which `end` closes. */
  write(data: string | Uint8Array, end?: boolean): Promise<void>;
  /** Sends a signal to it and all that it has started. */
  signal(number: number): Promise<void>;
  /** Changes the size of its terminal. */
  resize(terminal: TerminalSize): Promise<void>;
}

export interface ExecResult {
  status: number;
  timedOut: boolean;
  /** The limit of its own that ended or hindered it: `timeout`, `memory` or `pids`. */
  limit?: string | undefined;
}

export interface RunResult extends ExecResult {
  stdout: Buffer;
  stderr: Buffer;
  /** How many bytes of output are not kept. */
  dropped: number;
}

/** A live session. Every method fails once it, or pinfold, has ended: nothing is done elsewhere instead. */
export class Sandbox {
  readonly connection: Connection;
  readonly session: string;
  readonly boundary: string;
  /** What pinfold said at its start. */
  readonly notes: readonly string[];
  /** The workspace and the working directory inside. */
  readonly workspace: string;
  readonly cwd: string;
  /** The directory of the host that the workspace stands for. */
  readonly hostRoot: string;
  /** What `close` ends. */
  readonly #closes: "connection" | "session" | "nothing";

  private constructor(
    connection: Connection,
    closes: "connection" | "session" | "nothing",
    started: Started,
    places: { workspace: string; cwd: string; hostRoot: string },
  ) {
    this.connection = connection;
    this.#closes = closes;
    this.session = started.session;
    this.boundary = started.boundary;
    this.notes = started.notes;
    this.workspace = places.workspace;
    this.cwd = places.cwd;
    this.hostRoot = places.hostRoot;
  }

  static async start(options: SandboxOptions): Promise<Sandbox> {
    const connection = options.connection ?? new Connection({ program: options.program });
    const isShared = options.connection !== undefined;
    const closes = !isShared ? "connection" : options.detached ? "nothing" : "session";
    let started: Started | undefined;
    try {
      const given: [string, string | undefined][] = [
        ["--identity", options.agent],
        ["--worktree-branch", options.worktreeBranch],
        ["--sandbox-config", options.sandboxConfig],
      ];
      const words = given.flatMap(([name, value]) => (value === undefined ? [] : [name, value]));
      started = (await connection.call("session.start", {
        workspace: options.cwd,
        options: [...words, ...(options.options ?? [])],
        ...(options.name === undefined ? {} : { name: options.name }),
        ...(options.detached === undefined ? {} : { detached: options.detached }),
      })) as Started;
      const argv = ["sh", "-c", 'printf "%s\\0%s" "$PINFOLD_WORKSPACE" "$PWD"'];
      const answer = (await connection.call("exec.run", {
        session: started.session,
        program: { argv },
      })) as { stdout: Bytes };
      const [workspace = "", cwd = ""] = fromBytes(answer.stdout).toString("utf8").split("\0");
      const below = relative(workspace, cwd);
      const hostRoot = below === "" ? options.cwd : options.cwd.slice(0, -below.length - 1);
      return new Sandbox(connection, closes, started, { workspace, cwd, hostRoot });
    } catch (error) {
      const { session } = started ?? {};
      if (session !== undefined) await connection.call("session.stop", { session }).catch(() => {});
      if (!isShared) await connection.close();
      throw error;
    }
  }

  /** A path of the host as it is inside. What is not in the workspace stays as it is, for pinfold to refuse. */
  inside(path: string): string {
    const absolute = resolve(this.hostCwd, path);
    const below = relative(this.hostRoot, absolute);
    const leaves = below === ".." || below.startsWith(`..${sep}`) || isAbsolute(below);
    return leaves ? absolute : join(this.workspace, below);
  }

  get hostCwd(): string {
    return join(this.hostRoot, relative(this.workspace, this.cwd));
  }

  async read(path: string): Promise<{ content: Buffer; mime: string | undefined; kind: string }> {
    const read = { path: this.inside(path) };
    const answer = await this.#call("files.read", { read });
    const file = isRecord(answer["file"]) ? answer["file"] : {};
    const mime = typeof file["mime"] === "string" ? file["mime"] : undefined;
    return { content: fromBytes(answer["content"] as Bytes), mime, kind: String(file["kind"]) };
  }

  async write(path: string, content: string | Uint8Array, parents = false): Promise<void> {
    const write = { path: this.inside(path), parents };
    await this.#call("files.write", { write, content: toBytes(bytesOf(content)) });
  }

  async makeDirectory(path: string): Promise<void> {
    await this.#call("files.makeDirectory", { directory: { path: this.inside(path) } });
  }

  async list(path: string): Promise<Entry[]> {
    const answer = await this.#call("files.list", { list: { path: this.inside(path) } });
    return answer["entries"] as Entry[];
  }

  async stat(path: string): Promise<{ kind: Entry["kind"]; writable: boolean; size: number }> {
    const answer = await this.#call("files.stat", { stat: { path: this.inside(path) } });
    return answer as unknown as { kind: Entry["kind"]; writable: boolean; size: number };
  }

  async find(pattern: string, path: string, limit: number, signal?: AbortSignal): Promise<Entry[]> {
    const find = { pattern, path: this.inside(path), limit };
    return (await this.#call("files.find", { find }, signal))["entries"] as Entry[];
  }

  async grep(
    grep: { pattern: string; path: string } & Record<string, unknown>,
    signal?: AbortSignal,
  ): Promise<GrepResult> {
    const asked = { ...grep, path: this.inside(grep.path) };
    return (await this.#call("files.grep", { grep: asked }, signal)) as unknown as GrepResult;
  }

  /** Runs a program to its end, and returns the end of its output. Aborted, it ends with all that it has started. */
  async run(argv: readonly string[], options: RunOptions = {}): Promise<RunResult> {
    const { input, output, signal } = options;
    const asked = {
      program: this.#program(argv, options),
      ...(input === undefined ? {} : { input: toBytes(bytesOf(input)) }),
      ...(output === undefined ? {} : { limit: output }),
    };
    const answer = await this.#call("exec.run", asked, signal);
    const [stdout, stderr] = [answer["stdout"], answer["stderr"]].map((bytes) => fromBytes(bytes as Bytes));
    const dropped = Number(answer["dropped"]);
    return { ...ended(answer["ended"]), stdout: stdout!, stderr: stderr!, dropped };
  }

  #program(argv: readonly string[], options: ProgramOptions): Record<string, unknown> {
    return {
      argv,
      ...(options.cwd === undefined ? {} : { cwd: this.inside(options.cwd) }),
      ...(options.env === undefined ? {} : { env: options.env }),
      ...(options.timeout === undefined ? {} : { timeoutMs: Math.ceil(options.timeout * 1000) }),
      ...(options.limits === undefined ? {} : { limits: options.limits }),
    };
  }

  /** Runs a program to its end, with its output as it comes. Aborted, it ends with all that it has started. */
  async exec(argv: readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
    if (options.signal?.aborted) throw new Error("aborted");
    const program = this.#program(argv, options);
    return new Promise((done, failed) => {
      let exec: number | undefined;
      let isSettled = false;
      const early: (() => void)[] = [];
      const kill = (): void => {
        if (exec !== undefined) this.connection.notify("exec.signal", { exec, signal: 9 });
      };
      const stop: (() => void)[] = [];
      const settle = (act: () => void): void => {
        isSettled = true;
        for (const each of stop) each();
        options.signal?.removeEventListener("abort", kill);
        act();
      };
      // What the caller's own functions throw is theirs, and fails this program alone.
      const guarded = (act: () => void): void => {
        if (isSettled) return;
        try {
          act();
        } catch (error) {
          kill();
          settle(() => failed(error));
        }
      };
      // Notifications before the number is known wait for it.
      const when = (params: Record<string, unknown>, act: () => void): void => {
        const ours = (): void => void (params["exec"] === exec && guarded(act));
        if (exec === undefined) early.push(ours);
        else ours();
      };
      stop.push(
        this.connection.on("exec.output", (params) =>
          when(params, () => {
            const stream = params["stream"] === "stderr" ? "stderr" : "stdout";
            options.onData?.(fromBytes(params["data"] as Bytes), stream);
          }),
        ),
        this.connection.on("exec.exit", (params) =>
          when(params, () => {
            settle(() => {
              if (options.signal?.aborted) failed(new Error("aborted"));
              else if (isRecord(params["ended"])) done(ended(params["ended"]));
              else failed(new PinfoldError(0, String(params["error"])));
            });
          }),
        ),
        this.connection.onEnd((error) => settle(() => failed(error))),
      );
      options.signal?.addEventListener("abort", kill, { once: true });
      const { terminal, input = false } = options;
      const start = { session: this.session, program, input, ...(terminal === undefined ? {} : { terminal }) };
      this.connection.call("exec.start", start).then(
        (started) => {
          exec = (started as { exec: number }).exec;
          const running = this.#running(exec);
          guarded(() => options.onStart?.(running));
          for (const act of early) act();
          if (options.signal?.aborted) kill();
        },
        (error: Error) => settle(() => failed(error)),
      );
    });
  }

  #running(exec: number): Running {
    const call = async (method: string, params: Record<string, unknown>): Promise<void> => {
      await this.connection.call(method, { exec, ...params });
    };
    return {
      write: (data, end = false) => call("exec.write", { data: toBytes(bytesOf(data)), end }),
      signal: (number) => call("exec.signal", { signal: number }),
      resize: (terminal) => call("exec.resize", { terminal }),
    };
  }

  /** Ends the session, and waits until it has cleaned up. Programs have so many seconds to end by themselves, ten by default. */
  async stop(grace?: number): Promise<void> {
    await this.#call("session.stop", grace === undefined ? {} : { graceMs: Math.round(grace * 1000) });
  }

  /** Ends the session unless it is detached, and a connection of its own; waits until that is done. */
  async close(): Promise<void> {
    if (this.#closes === "connection") await this.connection.close();
    else if (this.#closes === "session") await this.stop();
  }

  async #call(
    method: string,
    params: Record<string, unknown>,
    signal?: AbortSignal,
  ): Promise<Record<string, unknown>> {
    const answer = await this.connection.call(method, { session: this.session, ...params }, signal);
    return isRecord(answer) ? answer : {};
  }
}

interface Started {
  session: string;
  boundary: string;
  notes: string[];
}

function bytesOf(data: string | Uint8Array): Uint8Array {
  return typeof data === "string" ? Buffer.from(data, "utf8") : data;
}

function ended(answer: unknown): ExecResult {
  const { status, timedOut, limit } = isRecord(answer) ? answer : {};
  return {
    status: Number(status),
    timedOut: timedOut === true,
    ...(typeof limit === "string" ? { limit } : {}),
  };
}

/** A name for people. */
export function text(bytes: Bytes): string {
  return fromBytes(bytes).toString("utf8");
}
