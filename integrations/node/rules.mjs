// What is refused, to whom, and what is there instead: the same words as `pinfold guard`.

import { realpathSync } from 'node:fs';
import { delimiter, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

const BACKGROUND = 'run it next to the session as a background run';

/** Each interface, and what to use instead. @type {ReadonlyMap<string, string>} */
const REPLACEMENTS = new Map([
  ['child_process', "run commands by the session's bash tool, ctx.shell or ctx.git"],
  ['cluster', BACKGROUND],
  ['worker_threads', BACKGROUND],
]);

/** The interfaces by name. */
export const APIS = [...REPLACEMENTS.keys()];

/** The internal bindings that they are made of. @type {ReadonlyMap<string, string>} */
const BINDINGS = new Map([
  ['process_wrap', 'child_process'],
  ['spawn_sync', 'child_process'],
  ['worker', 'worker_threads'],
]);

/** Directories whose code is looked at; all code where none are named. */
const GUARDED = (process.env.PINFOLD_GUARD ?? '')
  .split(delimiter)
  .filter((directory) => directory !== '')
  .map((directory) => realpathSync(directory));

/** The interface that a specifier means, if it means one. @param {unknown} specifier */
export function apiOf(specifier) {
  if (typeof specifier !== 'string') return undefined;
  // As the parser of URLs reads it: `NODE:cluster` is one, too.
  const plain = specifier.replace(/^[\0- ]+|[\0- ]+$|[\t\n\r]/g, '');
  const name = /^node:/i.test(plain) ? plain.slice('node:'.length) : plain;
  return REPLACEMENTS.has(name) ? name : undefined;
}

/** The interface that a binding belongs to, if it does. @param {unknown} name */
export function apiOfBinding(name) {
  return BINDINGS.get(String(name));
}

/**
 * Whether the code of this file or URL is looked at. Code without a file is: nobody knows whose it is.
 * @param {string | undefined} place
 */
export function isGuarded(place) {
  if (place === undefined || GUARDED.length === 0) return true;
  if (place.startsWith('node:')) return false;
  let file = place;
  if (place.startsWith('file:')) file = fileURLToPath(place);
  else if (!place.startsWith('/')) return true;
  try {
    file = realpathSync(file);
  } catch {
    // A name that createRequire was given need not exist.
  }
  return GUARDED.some((directory) => file === directory || file.startsWith(directory + sep));
}

/** An interface was reached for by code that may not. */
export class Refusal extends Error {
  code = 'ERR_PINFOLD_GUARD';

  /** @param {string} api @param {string | undefined} by */
  constructor(api, by) {
    const instead = REPLACEMENTS.get(api) ?? 'leave the loading of modules as it is';
    super(`pinfold guard: ${api} is refused to ${by ?? 'code without a file'}: ${instead}`);
    this.name = 'Refusal';
  }
}
