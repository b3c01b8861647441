#!/usr/bin/env node
// Starts pi with this extension and no other: what a repository brings along is not loaded on this machine.
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";

import { refusalOfSettings } from "./repository.mjs";

const refusal = refusalOfSettings(process.cwd());
if (refusal !== undefined) {
  console.error(refusal);
  process.exit(1);
}
const extension = fileURLToPath(new URL("../src/extension.ts", import.meta.url));
const pi = spawn("pi", ["--no-extensions", "-e", extension, ...process.argv.slice(2)], {
  stdio: "inherit",
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  // The terminal tells pi by itself; this process only waits for it.
  process.on(signal, () => signal !== "SIGINT" && pi.kill(signal));
}
pi.on("error", (error) => {
  console.error(`error: cannot start pi: ${error.message}`);
  process.exitCode = 127;
});
pi.on("exit", (code, signal) => {
  process.exitCode = code ?? 128 + (signal ? constants.signals[signal] : 0);
});
