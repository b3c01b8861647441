// A connection to `pinfold serve`: JSON-RPC 2.0, one message a line.

import { spawn } from "node:child_process";
import { createConnection } from "node:net";
import type { Readable, Writable } from "node:stream";

/** Text, or bytes that are not text. */
export type Bytes = string | { base64: string };

export function toBytes(data: Uint8Array): Bytes {
  const buffer = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const text = buffer.toString("utf8");
  return Buffer.from(text, "utf8").equals(buffer) ? text : { base64: buffer.toString("base64") };
}

export function fromBytes(bytes: Bytes): Buffer {
  return typeof bytes === "string" ? Buffer.from(bytes, "utf8") : Buffer.from(bytes.base64, "base64");
}

/** What the server, or a session, refuses. */
export class PinfoldError extends Error {
  readonly code: number;
  /** The kind of what a tool refuses: `escapes`, `not-found`, `gone`, … */
  readonly kind: string | undefined;
  readonly hint: string | undefined;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.name = "PinfoldError";
    this.code = code;
    const text = (key: string): string | undefined => {
      const value = isRecord(data) ? data[key] : undefined;
      return typeof value === "string" ? value : undefined;
    };
    this.kind = text("kind");
    this.hint = text("hint");
  }
}

type Answer = { resolve: (result: unknown) => void; reject: (error: Error) => void };
type Listener = (params: Record<string, unknown>) => void;

/** Which server a connection is to. */
export interface ConnectionOptions {
  /** The program that is started as its server; `$PINFOLD` or the one on `PATH` by default. */
  program?: string | undefined;
  /** The socket of a server that runs, instead of one of its own. */
  socket?: string | undefined;
}

/** One client of a server: of its own, which ends with it, or of one that runs. Its sessions end with it, except detached ones. */
export class Connection {
  readonly #requests: Writable;
  readonly #waiting = new Map<number, Answer>();
  readonly #listeners = new Map<string, Set<Listener>>();
  #next = 1;
  /** What came of a message that has not ended. */
  #begun: string[] = [];
  #said = "";
  #over: Error | undefined;
  readonly #ends = new Set<(error: Error) => void>();

  constructor({ program, socket }: ConnectionOptions = {}) {
    const start = program ?? process.env["PINFOLD"] ?? "pinfold";
    const [requests, answers] = socket === undefined ? this.#start(start) : this.#connect(socket);
    this.#requests = requests.on("error", () => {});
    answers.setEncoding("utf8").on("data", (text: string) => this.#hear(text));
  }

  /** Starts `pinfold serve`. */
  #start(program: string): [Writable, Readable] {
    const server = spawn(program, ["serve", "--stdio"], { stdio: ["pipe", "pipe", "pipe"] });
    server.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#said = (this.#said + text).slice(-4096);
    });
    server.on("error", (error) => {
      this.#end(new PinfoldError(0, `cannot start ${program}: ${error.message}`));
    });
    server.on("close", () => {
      const why = this.#said.trim();
      this.#end(new PinfoldError(0, `pinfold has ended${why === "" ? "" : `: ${why}`}`));
    });
    return [server.stdin, server.stdout];
  }

  #connect(path: string): [Writable, Readable] {
    const socket = createConnection(path);
    socket.on("error", (error) => {
      this.#end(new PinfoldError(0, `cannot reach pinfold at ${path}: ${error.message}`));
    });
    socket.on("close", () => this.#end(new PinfoldError(0, "pinfold has ended")));
    return [socket, socket];
  }

  /** Asks for something. An aborted signal takes it back. */
  call(method: string, params: Record<string, unknown>, signal?: AbortSignal): Promise<unknown> {
    if (this.#over) return Promise.reject(this.#over);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const cancel = (): void => this.notify("cancel", { request: id });
      const settled = (): void => signal?.removeEventListener("abort", cancel);
      this.#waiting.set(id, {
        resolve: (result) => (settled(), resolve(result)),
        reject: (error) => (settled(), reject(error)),
      });
      this.#send({ jsonrpc: "2.0", id, method, params });
      signal?.addEventListener("abort", cancel, { once: true });
      if (signal?.aborted) cancel();
    });
  }

  /** Asks for something without wanting an answer. */
  notify(method: string, params: Record<string, unknown>): void {
    if (!this.#over) this.#send({ jsonrpc: "2.0", method, params });
  }

  /** Listens to notifications, until the function that it returns is called. */
  on(method: string, listener: Listener): () => void {
    const listeners = this.#listeners.get(method) ?? new Set();
    this.#listeners.set(method, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** Tells of the connection's end, at once if it has ended, until the function that it returns is called. */
  onEnd(listener: (error: Error) => void): () => void {
    if (this.#over) listener(this.#over);
    else this.#ends.add(listener);
    return () => this.#ends.delete(listener);
  }

  /** Returns the live sessions of this user: their ids, each with its name if it has one. */
  async sessions(): Promise<Map<string, string | undefined>> {
    const listed = (await this.call("session.list", {})) as { sessions: { session: string; name?: string | null }[] };
    return new Map(listed.sessions.map(({ session, name }) => [session, name ?? undefined]));
  }

  /** Ends the connection, with its sessions and a server of its own, and waits until that is done. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      this.onEnd(() => resolve());
      this.#requests.end();
    });
  }

  #send(message: unknown): void {
    this.#requests.write(`${JSON.stringify(message)}\n`);
  }

  #hear(text: string): void {
    let at = 0;
    // Each piece is looked at once: a large answer comes in thousands.
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", at)) {
      const line = [...this.#begun, text.slice(at, end)].join("");
      this.#begun = [];
      at = end + 1;
      this.#take(JSON.parse(line));
    }
    if (at < text.length) this.#begun.push(text.slice(at));
  }

  #take(message: unknown): void {
    if (!isRecord(message)) return;
    if (typeof message["method"] === "string") {
      const params = isRecord(message["params"]) ? message["params"] : {};
      for (const listener of this.#listeners.get(message["method"]) ?? []) listener(params);
    } else if (typeof message["id"] === "number") {
      this.#answer(message["id"], message["result"], message["error"]);
    }
  }

  #answer(id: number, result: unknown, error: unknown): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (isRecord(error)) {
      const { code, message, data } = error;
      waiting?.reject(new PinfoldError(Number(code), String(message), data));
    } else {
      waiting?.resolve(result);
    }
  }

  #end(error: Error): void {
    if (this.#over) return;
    this.#over = error;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    for (const listener of this.#ends) listener(error);
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
