#!/usr/bin/env node
// Starts the executable that the package of this machine has.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `@pinfold/linux-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/pinfold`);
} catch {
  console.error(`pinfold: error: the package ${name} is not installed`);
  console.error("hint: pinfold runs on Linux, x86_64 and aarch64; install it without --omit=optional");
  process.exit(1);
}

const args = process.argv.slice(2);
// From Node 23.11 (22.15) on, pinfold takes the place of this process. Then nothing is between it and its caller.
if (typeof process.execve === "function") {
  process.removeAllListeners("warning");
  process.execve(program, [program, ...args], process.env);
}

const child = spawn(program, args, { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`pinfold: error: ${program}: ${error.message}`);
  process.exit(1);
});
// What the terminal sends it sends to both. Everything else is passed on.
for (const signal of ["SIGINT", "SIGQUIT", "SIGTSTP"]) process.on(signal, () => {});
for (const signal of ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
