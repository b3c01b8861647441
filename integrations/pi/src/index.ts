// For programs that embed sandboxes, and for those that were built on MoltNet.

export { type Bytes, Connection, type ConnectionOptions, fromBytes, PinfoldError, toBytes } from "./connection.ts";
export {
  type Entry,
  type ExecOptions,
  type ExecResult,
  type GrepLine,
  type GrepResult,
  type ProgramOptions,
  type Running,
  type RunOptions,
  type RunResult,
  Sandbox,
  type SandboxOptions,
  type TerminalSize,
} from "./sandbox.ts";
export { hostExec, type HostExecResult } from "./host.ts";
export { memory, type MemoryTool, memoryTools } from "./memory.ts";
export { type ApiOptions, ApiError, type TaskCalls } from "./calls.ts";
export { createPiTaskExecutor, executePiTask, type ExecutePiTaskOptions } from "./executor.ts";
export {
  activateAgentEnv,
  type AgentCredentials,
  createGondolinBashOps,
  createGondolinEditOps,
  createGondolinReadOps,
  createGondolinWriteOps,
  createMoltNetTools,
  ensureSnapshot,
  findMainWorktree,
  loadCredentials,
  type PiTaskOptions,
  resumeVm,
  toGuestPath,
} from "./moltnet.ts";
export {
  AgentRuntime,
  type AgentRuntimeOptions,
  ApiTaskReporter,
  type ApiTaskReporterOptions,
  ApiTaskSource,
  type ApiTaskSourceOptions,
  finishTask,
  type TaskExecutor,
} from "./runtime.ts";
export {
  type ClaimedTask,
  jsonCid,
  type Task,
  type TaskError,
  type TaskMessage,
  type TaskOutput,
  type TaskReporter,
  type TaskSource,
  type TaskUsage,
} from "./task.ts";
