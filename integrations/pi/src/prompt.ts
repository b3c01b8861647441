// The prompt of an agent that works on a task, and the tool by which it hands in its result.

import { type TSchema, Type } from "typebox";

import { isRecord } from "./connection.ts";
import type { Task } from "./task.ts";

/** The variable that has the extension register the tool. */
export const SUBMIT = "PINFOLD_SUBMIT";

/** The tool, and where it writes what was handed in. */
export interface Submit {
  taskType: string;
  file: string;
}

const text = (description: string): TSchema => Type.String({ minLength: 1, description });
const ids = Type.Array(Type.String(), { description: "Diary entries that were made, by their ids" });
const closed = { additionalProperties: false };

/** The outputs of the types of tasks that are worked on (closed objects, as the server checks them). */
const OUTPUTS: Record<string, TSchema> = {
  freeform: Type.Object(
    {
      summary: text("What was done, and what came of it"),
      branch: Type.Optional(text("The branch that has the work")),
      artifacts: Type.Optional(
        Type.Array(
          Type.Object(
            {
              kind: text("As in `report`, `patch`, `log`"),
              title: text("A title"),
              description: Type.Optional(Type.String()),
              url: Type.Optional(Type.String()),
              path: Type.Optional(Type.String()),
              body: Type.Optional(Type.String({ maxLength: 65_536 })),
            },
            closed,
          ),
          { maxItems: 20 },
        ),
      ),
      diaryEntryIds: Type.Optional(ids),
    },
    closed,
  ),
  fulfill_brief: Type.Object(
    {
      branch: text("The branch that has the work"),
      commits: Type.Array(
        Type.Object(
          {
            sha: Type.String({ minLength: 7, description: "The commit" }),
            message: Type.String(),
            diaryEntryId: Type.Union([Type.String(), Type.Null()]),
          },
          closed,
        ),
      ),
      pullRequestUrl: Type.Union([Type.String(), Type.Null()]),
      diaryEntryIds: ids,
      summary: text("What was done, and what came of it"),
    },
    closed,
  ),
};

/** The schema of what is handed in; none for a type that is not worked on. */
export function outputSchema(taskType: string): TSchema | undefined {
  return Object.hasOwn(OUTPUTS, taskType) ? OUTPUTS[taskType] : undefined;
}

export function submitTool(taskType: string): string {
  return `submit_${taskType}_output`;
}

/** Returns the prompt. It begins with a word of ours: what begins with `@` or `-` is no text for pi. */
export function promptOf({ title, taskType, input }: Task): string {
  const { brief, expectedOutput, constraints, seedFiles, scopeHint, successCriteria, context } = input;
  if (typeof brief !== "string" || brief.trim() === "") throw new Error("the task has no brief");
  const parts = [`# Task${typeof title === "string" ? `: ${title}` : ""}`, brief];
  const section = (heading: string, content: unknown): void => {
    if (content === undefined || content === null) return;
    const lines = Array.isArray(content) ? content.map((line) => `- ${String(line)}`).join("\n") : content;
    parts.push(`## ${heading}`, typeof lines === "string" ? lines : JSON.stringify(lines, undefined, 2));
  };
  section("Expected output", expectedOutput);
  section("Constraints", constraints);
  section("Where to begin", seedFiles);
  section("Scope", scopeHint);
  section("Success criteria", successCriteria);
  for (const one of Array.isArray(context) ? context.filter(isRecord) : []) {
    section(`Context: ${String(one["slug"])}`, one["content"]);
  }
  parts.push(`When you are done, call the tool \`${submitTool(taskType)}\` once, with your result. Without this call the task fails.`);
  return parts.join("\n\n");
}

/** What a worker says of the criteria of a task: it knows only that the result was handed in by the tool. */
export function verificationOf({ input, inputCid }: Task): Record<string, unknown> | undefined {
  const criteria = input["successCriteria"];
  if (!isRecord(criteria)) return undefined;
  const list = (name: string): Record<string, unknown>[] => {
    const all = criteria[name];
    return Array.isArray(all) ? all.filter(isRecord) : [];
  };
  const results: Record<string, unknown>[] = list("gates").map(({ id, kind }) => ({
    id,
    kind: "gate",
    status: kind === "submit-tool-call" ? "pass" : "skip",
  }));
  for (const { id } of list("assertions")) results.push({ id, kind: "assertion", status: "skip" });
  const rubric = criteria["rubric"];
  if (isRecord(rubric)) results.push({ id: rubric["rubricId"], kind: "rubric", status: "skip" });
  if (isRecord(criteria["sideEffects"])) results.push({ id: "side-effects", kind: "sideEffect", status: "skip" });
  return { inputCid, results, passed: true };
}
