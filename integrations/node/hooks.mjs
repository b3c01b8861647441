// The hook of import, on the main thread (module.registerHooks) or on its own (module.register).

import { Refusal, apiOf, isGuarded } from './rules.mjs';

/**
 * @param {string} specifier
 * @param {{ parentURL?: string | undefined }} context
 * @param {Function} next
 */
export function resolve(specifier, context, next) {
  refuse(specifier, context);
  const resolved = next(specifier, context);
  return typeof resolved?.then === 'function'
    ? resolved.then((/** @type {{ url: string }} */ found) => checked(found, context))
    : checked(resolved, context);
}

/**
 * A name that a package maps to an interface is seen by where it leads.
 * @param {{ url: string }} found
 * @param {{ parentURL?: string | undefined }} context
 */
function checked(found, context) {
  refuse(found.url, context);
  return found;
}

/**
 * Without a parent it is what node was started with, which is never one of these, or code in a string that the
 * main context loads for (vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER): nobody can tell whose.
 * @param {string} specifier
 * @param {{ parentURL?: string | undefined }} context
 */
function refuse(specifier, { parentURL }) {
  const api = apiOf(specifier);
  if (api !== undefined && (parentURL === undefined || isGuarded(parentURL))) {
    throw new Refusal(api, parentURL);
  }
}
