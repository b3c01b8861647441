// `node --import @pinfold/guard/register`: a guardrail at load, not a boundary (docs/guides/guard.md).

import Module from 'node:module';

import { callerOf } from './callers.mjs';
import { resolve } from './hooks.mjs';
import { APIS, Refusal, apiOf, apiOfBinding, isGuarded } from './rules.mjs';

/**
 * Puts a function in the place of one that is called by the same name.
 * @param {any} owner
 * @param {string} name
 * @param {(original: Function) => Function} make
 */
function patch(owner, name, make) {
  const original = owner[name];
  if (typeof original !== 'function') return;
  const patched = make(original);
  Object.defineProperty(patched, 'name', { value: name });
  owner[name] = patched;
}

/** What the interfaces export: a name that leads to one by a detour is seen by what comes of it. */
const exported = new Map(
  APIS.map((api) => [Module.createRequire(import.meta.url)(api), api]),
);

/** @param {string | undefined} api @param {Function} patched @param {string} [loader] */
function check(api, patched, loader) {
  if (api === undefined) return;
  const caller = callerOf(patched);
  for (const place of loader === undefined ? [caller] : [caller, loader]) {
    if (isGuarded(place)) throw new Refusal(api, place);
  }
}

// Before anything is patched: on older versions this starts a thread.
const hooks = /** @type {any} */ (Module);
if (typeof hooks.registerHooks === 'function') hooks.registerHooks({ resolve });
else Module.register('./hooks.mjs', import.meta.url);

patch(Module, '_load', (original) =>
  function load(/** @type {unknown} */ request, /** @type {any} */ parent, /** @type {any[]} */ ...rest) {
    check(apiOf(request), load, parent?.filename ?? undefined);
    const loaded = Reflect.apply(original, Module, [request, parent, ...rest]);
    check(exported.get(loaded), load, parent?.filename ?? undefined);
    return loaded;
  });

patch(process, 'getBuiltinModule', (original) =>
  function get(/** @type {unknown} */ id) {
    check(apiOf(id), get);
    return Reflect.apply(original, process, [id]);
  });

for (const name of ['binding', '_linkedBinding']) {
  patch(process, name, (original) =>
    function binding(/** @type {unknown} */ id) {
      check(apiOfBinding(id), binding);
      return Reflect.apply(original, process, [id]);
    });
}

// Who can add hooks of its own can answer before these are asked.
for (const name of ['register', 'registerHooks']) {
  patch(Module, name, (original) =>
    function add(/** @type {any[]} */ ...given) {
      check(`module.${name}`, add);
      return Reflect.apply(original, Module, given);
    });
}

Module.syncBuiltinESMExports();
