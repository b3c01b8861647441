// What pi's own tools are built on, done in a sandbox. Nothing here touches the host.

import { join } from "node:path";

import type {
  BashOperations,
  EditOperations,
  FindOperations,
  LsOperations,
  ReadOperations,
  WriteOperations,
} from "@earendil-works/pi-coding-agent";

import { PinfoldError } from "./connection.ts";
import { type Sandbox, text } from "./sandbox.ts";

/** The best shell that the session's system has: bash, where it is there. */
const SHELL = ["sh", "-c", 'exec "${SHELL:-sh}" -c "$1"', "sh"];

/** The sandbox, once it is there; fails if it could not be started or has ended. */
export type Where = () => Promise<Sandbox>;

export function createReadOps(where: Where): ReadOperations {
  return {
    readFile: async (path) => (await (await where()).read(path)).content,
    access: async (path) => void (await (await where()).stat(path)),
    detectImageMimeType: async (path) => {
      const { mime } = await (await where()).read(path);
      return mime ?? null;
    },
  };
}

export function createWriteOps(where: Where): WriteOperations {
  return {
    writeFile: async (path, content) => (await where()).write(path, content),
    mkdir: async (path) => (await where()).makeDirectory(path),
  };
}

export function createEditOps(where: Where): EditOperations {
  return {
    readFile: async (path) => (await (await where()).read(path)).content,
    writeFile: async (path, content) => (await where()).write(path, content),
    access: async (path) => {
      const { writable } = await (await where()).stat(path);
      if (!writable) throw new Error(`read-only in this session: ${path}`);
    },
  };
}

export function createLsOps(where: Where): LsOperations {
  // The tool asks for a directory and then for each of its entries: one answer tells both.
  const kinds = new Map<string, boolean>();
  return {
    exists: (path) => exists(where, path),
    stat: async (path) => {
      const known = kinds.get(path);
      const is = known ?? (await (await where()).stat(path)).kind === "directory";
      return { isDirectory: () => is };
    },
    readdir: async (path) => {
      kinds.clear();
      const entries = await (await where()).list(path);
      for (const { name, kind } of entries) {
        // What a link leads to is asked for.
        if (kind !== "link") kinds.set(join(path, text(name)), kind === "directory");
      }
      return entries.map(({ name }) => text(name));
    },
  };
}

export function createFindOps(where: Where): FindOperations {
  return {
    exists: (path) => exists(where, path),
    glob: async (pattern, cwd, { limit }) => {
      const entries = await (await where()).find(pattern, cwd, limit);
      return entries.map(({ name, kind }) => join(cwd, text(name)) + (kind === "directory" ? "/" : ""));
    },
  };
}

/** The variables that pi hands over are the host's, keys included: none of them goes in. */
export function createBashOps(where: Where): BashOperations {
  return {
    exec: async (command, cwd, { onData, signal, timeout }) => {
      const sandbox = await where();
      const { status, timedOut } = await sandbox.exec([...SHELL, command], {
        cwd,
        onData,
        signal,
        timeout: timeout !== undefined && timeout > 0 ? timeout : undefined,
      });
      if (timedOut) throw new Error(`timeout:${timeout}`);
      return { exitCode: status };
    },
  };
}

async function exists(where: Where, path: string): Promise<boolean> {
  try {
    await (await where()).stat(path);
    return true;
  } catch (error) {
    // Only what is not there is not there: a sandbox that has ended says nothing about a path.
    if (error instanceof PinfoldError && error.kind === "not-found") return false;
    throw error;
  }
}

