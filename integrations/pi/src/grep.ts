// pi's grep runs ripgrep on the host whatever operations it is given, so its search is replaced whole.

import {
  createGrepToolDefinition,
  DEFAULT_MAX_BYTES,
  formatSize,
  truncateHead,
} from "@earendil-works/pi-coding-agent";

import type { Where } from "./operations.ts";
import { text } from "./sandbox.ts";

/** Matches that pi's grep gives unless another number is asked for. */
const LIMIT = 100;
/** Characters of a line that it shows. */
const LINE = 500;

type Definition = ReturnType<typeof createGrepToolDefinition>;

export function createGrepTool(cwd: string, where: Where): Definition {
  const definition = createGrepToolDefinition(cwd);
  return {
    ...definition,
    async execute(_id, params, signal) {
      const limit = Math.max(1, params.limit ?? LIMIT);
      const context = params.context !== undefined && params.context > 0 ? params.context : 0;
      const found = await (await where()).grep(
        {
          pattern: params.pattern,
          path: params.path ?? ".",
          globs: params.glob === undefined ? [] : [params.glob],
          ignoreCase: params.ignoreCase ?? false,
          literal: params.literal ?? false,
          before: context,
          after: context,
          limit,
          lineLength: LINE,
        },
        signal,
      );
      if (found.matches === 0) {
        const part = found.binary === true ? " before the first NUL byte of this binary file" : "";
        return { content: [{ type: "text", text: `No matches found${part}` }], details: undefined };
      }
      const lines = found.lines.map(({ path, line, kind, text: content, cut }) => {
        const mark = kind === "match" ? ":" : "-";
        return `${text(path)}${mark}${line}${mark} ${text(content)}${cut ? "... [truncated]" : ""}`;
      });
      const truncation = truncateHead(lines.join("\n"), { maxLines: Number.MAX_SAFE_INTEGER });
      const notices: string[] = [];
      const details: NonNullable<Awaited<ReturnType<Definition["execute"]>>["details"]> = {};
      if (found.truncated) {
        notices.push(`${limit} matches limit reached. Use limit=${limit * 2} for more, or refine pattern`);
        details.matchLimitReached = limit;
      }
      if (truncation.truncated) {
        notices.push(`${formatSize(DEFAULT_MAX_BYTES)} limit reached`);
        details.truncation = truncation;
      }
      if (found.binary === true) notices.push("A binary file, searched up to its first NUL byte");
      if (found.lines.some(({ cut }) => cut)) {
        notices.push(`Some lines truncated to ${LINE} chars. Use read tool to see full lines`);
        details.linesTruncated = true;
      }
      const notice = notices.length === 0 ? "" : `\n\n[${notices.join(". ")}]`;
      const content = truncation.content + notice;
      const has = Object.keys(details).length > 0;
      return { content: [{ type: "text", text: content }], details: has ? details : undefined };
    },
  };
}
