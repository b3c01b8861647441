// The hook of import, on the main thread (module.registerHooks) or on its own (module.register).

import { Refusal, apiOf, isGuarded } from './rules.mjs';

/**
 * @param {string} specifier
 * @param {{ parentURL?: string | undefined }} context
 * @param {Function} next
 */
export function resolve(specifier, context, next) {
  const api = apiOf(specifier);
  // Without a parent it is what node was started with.
  if (api !== undefined && context.parentURL !== undefined && isGuarded(context.parentURL)) {
    throw new Refusal(api, context.parentURL);
  }
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
  const api = apiOf(found.url);
  if (api !== undefined && context.parentURL !== undefined && isGuarded(context.parentURL)) {
    throw new Refusal(api, context.parentURL);
  }
  return found;
}
