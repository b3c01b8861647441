//! Ways to a process, each a bundle that prints `started` where nobody guards.

/// The file's name, and its code.
pub(super) const WAYS: &[(&str, &str)] = &[
    (
        "a.mjs",
        r#"import { Script, constants } from "node:vm"; const o = { importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER };
            const c = await new Script("import('child_process')", o).runInThisContext(); c.execFileSync("true"); console.log("started")"#,
    ),
    (
        "a.mjs",
        r#"import { Script, constants } from "./handed.mjs"; const o = { importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER };
            const c = await new Script("import('child_process')", o).runInThisContext(); c.execFileSync("true"); console.log("started")"#,
    ),
    (
        "a.mjs",
        r#"import { execFileSync as s } from "child_process"; s("true"); console.log("started")"#,
    ),
    (
        "a.mjs",
        r#"import * as c from "node:child_process"; c.execFileSync("true"); console.log("started")"#,
    ),
    ("a.mjs", r#"import "\x63hild_proces\u0073"; console.log("started")"#),
    (
        "a.mjs",
        r#"import { Worker } from "worker_threads"; new Worker("console.log('started')", { eval: true })"#,
    ),
    ("a.mjs", r#"import cluster from "cluster"; if (cluster.isPrimary) console.log("started")"#),
    ("a.mjs", r#"export { spawn } from "child_process"; console.log("started")"#),
    ("a.mjs", r#"export * from "node:worker_threads"; console.log("started")"#),
    (
        "a.mjs",
        r#"import { spawnSync } from "./reexport.mjs"; spawnSync("true"); console.log("started")"#,
    ),
    (
        "a.mjs",
        r##"import { spawnSync } from "#mapped"; spawnSync("true"); console.log("started")"##,
    ),
    (
        "a.mjs",
        r##"import { spawnSync } from "#wide/child_process"; spawnSync("true"); console.log("started")"##,
    ),
    (
        "a.mjs",
        r#"const c = await import("child_process"); c.execFileSync("true"); console.log("started")"#,
    ),
    (
        "a.mjs",
        r#"const n = ["child", "process"].join("_"); await import(n); console.log("started")"#,
    ),
    ("a.mjs", r#"const n = `child_${"pro"}cess`; await import(n); console.log("started")"#),
    (
        "a.mjs",
        r#"await import("data:text/javascript,import 'child_process'"); console.log("started")"#,
    ),
    (
        "a.mjs",
        r#"await import("data:text/javascript;base64,aW1wb3J0ICJjaGlsZF9wcm9jZXNzIg=="); console.log("started")"#,
    ),
    ("a.cjs", r#"require("child_process").execFileSync("true"); console.log("started")"#),
    ("a.cjs", r#"require("node:child_process").execFileSync("true"); console.log("started")"#),
    (
        "a.cjs",
        r#"const r = require; r("child_" + "process").execFileSync("true"); console.log("started")"#,
    ),
    ("a.cjs", r#"let r; [r] = [require]; r("cluster"); console.log("started")"#),
    ("a.cjs", r#"((r, n) => r(n))(require, "work" + "er_threads"); console.log("started")"#),
    ("a.cjs", r#"require.call(null, "cluster"); console.log("started")"#),
    ("a.cjs", r#"Reflect.apply(require, null, ["cluster"]); console.log("started")"#),
    ("a.cjs", r#"require.bind(null, "cluster")(); console.log("started")"#),
    ("a.cjs", r#"module.require("cluster"); console.log("started")"#),
    ("a.cjs", r#"module["req" + "uire"]("clu" + "ster"); console.log("started")"#),
    ("a.cjs", r#"module.constructor._load("cluster"); console.log("started")"#),
    (
        "a.cjs",
        r#"const { require: r } = module; r.call(module, "cluster"); console.log("started")"#,
    ),
    ("a.cjs", r#"require.main.require("cluster"); console.log("started")"#),
    ("a.cjs", r#"arguments[1]("cluster"); console.log("started")"#),
    ("a.cjs", r#"process.mainModule.require("cluster"); console.log("started")"#),
    (
        "a.cjs",
        r#"globalThis["pro" + "cess"].mainModule.require("cluster"); console.log("started")"#,
    ),
    ("a.cjs", r#"require("module")._load("cluster"); console.log("started")"#),
    (
        "a.cjs",
        r#"const M = require("module"); new M("x").require("cluster"); console.log("started")"#,
    ),
    (
        "a.cjs",
        r#"const M = require("module"); const m = new M(__filename); m._compile("require('cluster')", "x.js"); console.log("started")"#,
    ),
    ("a.cjs", r#"require("./payload.txt").execFileSync("true"); console.log("started")"#),
    ("a.cjs", r#"require("module").createRequire("/")("cluster"); console.log("started")"#),
    (
        "a.mjs",
        r#"import { createRequire as c } from "module"; c("/elsewhere/x.js")("cluster"); console.log("started")"#,
    ),
    (
        "a.mjs",
        r#"import m from "node:module"; const require = m.createRequire(import.meta.url); require("cluster"); console.log("started")"#,
    ),
    (
        "a.mjs",
        r#"import * as m from "module"; m["create" + "Require"]("/")("cluster"); console.log("started")"#,
    ),
    ("a.cjs", r#"if (process.binding("spawn_sync").spawn) console.log("started")"#),
    (
        "a.cjs",
        r#"const { binding: b } = process; if (b("process_" + "wrap").Process) console.log("started")"#,
    ),
    (
        "a.cjs",
        r#"process.getBuiltinModule("child_process").execFileSync("true"); console.log("started")"#,
    ),
    (
        "a.mjs",
        r#"import { getBuiltinModule as g } from "process"; g("node:" + "cluster"); console.log("started")"#,
    ),
    (
        "a.cjs",
        r#"const p = process; p["getBuiltin" + "Module"]("cluster").fork; console.log("started")"#,
    ),
    ("a.cjs", r#"eval("req" + "uire('cluster')"); console.log("started")"#),
    ("a.cjs", r#"(0, eval)("process.mainModule.require('cluster')"); console.log("started")"#),
    (
        "a.cjs",
        r#"eval(Buffer.from("cmVxdWlyZSgnY2x1c3Rlcicp", "base64") + "//# sourceURL=/elsewhere/x.js"); console.log("started")"#,
    ),
    (
        "a.cjs",
        r#"new Function("return process")().mainModule.require("cluster"); console.log("started")"#,
    ),
    (
        "a.cjs",
        r#"[].constructor.constructor("return process.mainModule.require('cluster')")(); console.log("started")"#,
    ),
    (
        "a.cjs",
        r#"require("vm").runInThisContext("process.mainModule.require('cluster')"); console.log("started")"#,
    ),
    ("a.cjs", r#"with (process) { if (binding("spawn_sync")) console.log("started") }"#),
    ("a.cjs", r#"Error.stackTraceLimit = 0; require("cluster"); console.log("started")"#),
    (
        "a.cjs",
        r#"Object.defineProperty(Error, "prepareStackTrace", { value: () => [] }); process.mainModule.require("cluster"); console.log("started")"#,
    ),
    (
        "a.mjs",
        r#"import m from "module"; m.registerHooks({ resolve: (s, c, n) => s === "x" ? { url: "node:cluster", shortCircuit: true } : n(s, c) }); await import("x"); console.log("started")"#,
    ),
    (
        "a.cjs",
        r#"require("module")._resolveFilename = () => "cluster"; require("x"); console.log("started")"#,
    ),
    (
        "a.cjs",
        "var a = 1, b = 1;\na<!--b /*\nrequire('child_process'); console.log('started')\n//*/",
    ),
    ("a.cjs", r#"const f = () => require; f()("clus" + "ter"); console.log("started")"#),
    (
        "a.cjs",
        r#"new ((async () => {}).constructor)("return process.mainModule.require('cluster')")().then(() => console.log("started"))"#,
    ),
    (
        "a.cjs",
        r#"require.extensions[".txt"] = (m) => { m.exports = "x" }; ((m) => m.require("clus" + "ter"))(module); console.log("started")"#,
    ),
];
