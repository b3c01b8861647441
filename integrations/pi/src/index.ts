// For programs that embed sandboxes, and for those that were built on MoltNet.

export { type Bytes, Connection, fromBytes, PinfoldError, toBytes } from "./connection.ts";
export {
  type Entry,
  type ExecOptions,
  type ExecResult,
  type GrepLine,
  type GrepResult,
  type Running,
  Sandbox,
  type SandboxOptions,
  type TerminalSize,
} from "./sandbox.ts";
export { hostExec, type HostExecResult } from "./host.ts";
export {
  activateAgentEnv,
  type AgentCredentials,
  createGondolinBashOps,
  createGondolinEditOps,
  createGondolinReadOps,
  createGondolinWriteOps,
  createMoltNetTools,
  createPiTaskExecutor,
  ensureSnapshot,
  executePiTask,
  findMainWorktree,
  loadCredentials,
  type PiTask,
  type PiTaskExecutor,
  type PiTaskOptions,
  type PiTaskResult,
  resumeVm,
  toGuestPath,
} from "./moltnet.ts";
export {
  AgentRuntime,
  type AgentRuntimeOptions,
  type ApiTaskOptions,
  ApiTaskReporter,
  type ApiTaskReporterOptions,
  ApiTaskSource,
  type ApiTaskSourceOptions,
  type TaskReporter,
  type TaskSource,
} from "./runtime.ts";
