// What a repository brings along for pi that pi would run on this machine before any extension can say no.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Settings of a repository's that start nothing, load nothing and lead nowhere (docs/settings.md of pi 0.74 and
 * 0.87). Not among them, besides what runs programs: `prompts`, `skills` and `themes`, which may be files of
 * this machine's, `httpProxy`, and `sessionDir`. */
const HARMLESS = new Set([
  "autocompleteMaxVisible",
  "branchSummary",
  "collapseChangelog",
  "compaction",
  "defaultModel",
  "defaultProvider",
  "defaultThinkingLevel",
  "defaultTools",
  "doubleEscapeAction",
  "editorPaddingX",
  "enableSkillCommands",
  "enabledModels",
  "followUpMode",
  "hideThinkingBlock",
  "images",
  "lastChangelogVersion",
  "markdown",
  "modelThinkingLevels",
  "outputPad",
  "quietStartup",
  "retry",
  "showCacheMissNotices",
  "showHardwareCursor",
  "steeringMode",
  "terminal",
  "theme",
  "thinkingBudgets",
  "transport",
  "treeFilterMode",
  "warnings",
]);

/** Why pi is not to be started there, or to go on, if it is not. `--no-extensions` keeps pi from none of it:
 * packages are installed, by a command that the settings name, before extensions are left out. */
export function refusalOfSettings(cwd) {
  const path = join(cwd, ".pi", "settings.json");
  let settings;
  try {
    settings = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return undefined;
    return `pinfold: ${path} cannot be read, and may have pi run something on this machine: ${error.message}`;
  }
  const isObject = settings !== null && typeof settings === "object" && !Array.isArray(settings);
  const names = isObject ? Object.keys(settings) : ["(no object)"];
  const others = names.filter((name) => !HARMLESS.has(name)).map((name) => JSON.stringify(name));
  if (others.length === 0) return undefined;
  return (
    `pinfold: this repository's .pi/settings.json sets ${others.slice(0, 5).join(", ")}, which may have pi run ` +
    "something on this machine; move it away, or set that in your own settings"
  );
}

/** The same for extensions, unless pi was started with none. */
export function refusalOfExtensions(cwd) {
  if (!existsSync(join(cwd, ".pi", "extensions"))) return undefined;
  return (
    "pinfold: this repository brings extensions of its own (.pi/extensions), which would run on this machine; " +
    "start pi with --no-extensions, or by pinfold-pi"
  );
}
