// Who calls.

/** Frames that are looked through. */
const DEEPEST = 100;

/**
 * The file of the code that calls what was patched: the first one on the stack that is neither Node's
 * nor ours. Code in a string belongs to who runs it, whatever name it gives itself.
 * @param {Function} patched
 * @returns {string | undefined} Nothing where the stack does not say: a caller that hides is looked at.
 */
export function callerOf(patched) {
  const { prepareStackTrace, stackTraceLimit } = Error;
  /** @type {NodeJS.CallSite[]} */
  let frames = [];
  try {
    Error.stackTraceLimit = DEEPEST;
    Error.prepareStackTrace = (_, sites) => sites;
    /** @type {{ stack?: unknown }} */
    const holder = {};
    Error.captureStackTrace(holder, patched);
    if (Array.isArray(holder.stack)) frames = holder.stack;
  } catch {
    // What was made read-only stays, and nothing is known.
  } finally {
    try {
      Error.prepareStackTrace = prepareStackTrace;
      Error.stackTraceLimit = stackTraceLimit;
    } catch {
      // As above.
    }
  }
  for (const frame of frames) {
    if (frame.isEval()) continue;
    const file = frame.getFileName();
    if (file && !file.startsWith('node:')) return file;
  }
  return undefined;
}
