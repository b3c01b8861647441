use std::fs;
use std::path::Path;

use super::{Answer, answer};
use crate::{Bundle, NodeModules};

/// What is found in a bundle of one file, as `line:column what`.
fn found(name: &str, text: &str) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(name), text).unwrap();
    let bundle = Bundle::open(directory.path(), NodeModules::Included).unwrap();
    answers(&bundle.root, name)
}

fn answers(root: &Path, name: &str) -> Vec<String> {
    let mut out = Vec::new();
    answer(root, name.as_bytes(), &mut out).unwrap();
    let lines = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let answers = lines.map(|line| serde_json::from_slice(line).unwrap());
    let show = |answer| match answer {
        Answer::Found(found) => Some(format!("{}:{} {}", found.line, found.column, found.what)),
        Answer::Loads(_) | Answer::Read => None,
    };
    answers.filter_map(show).collect()
}

#[test]
fn every_way_to_a_process_is_refused() {
    let ways = [
        ("a.mjs", r#"import { spawn } from "child_process""#),
        ("a.mjs", r#"import cp from "node:child_process""#),
        ("a.mjs", r#"import "worker_threads""#),
        ("a.mjs", r#"import * as c from "node:cluster""#),
        ("a.mjs", r#"import c from "cluster""#),
        ("a.mjs", r#"export { spawn } from "child_process""#),
        ("a.mjs", r#"export * from "node:child_process""#),
        ("a.mjs", r#"import "\x63hild_process""#),
        ("a.mjs", r#"import "child\u005fprocess""#),
        ("a.mjs", r#"await import("child_process")"#),
        ("a.mjs", r#"await import(`child_${"process"}`)"#),
        ("a.mjs", r#"import(name)"#),
        ("a.mjs", r#"import("child" + tail)"#),
        ("a.mjs", r#"import("data:text/javascript,import%20'child_process'")"#),
        ("a.mjs", r#"import("data:text/javascript;base64,aW1wb3J0ICdjaGlsZF9wcm9jZXNzJw==")"#),
        ("a.mjs", r#"const m = "child_" + "process"; await import(m)"#),
        ("a.js", r#"const cp = require("child_process")"#),
        ("a.js", r#"const cp = require(`node:child_process`)"#),
        ("a.js", r#"const r = require; r("child_" + "process")"#),
        ("a.js", r#"let r; r = require; const q = r; q("worker_threads")"#),
        ("a.js", r#"const r = typeof require === "function" ? require : null; r("cluster")"#),
        ("a.js", r#"(0, require)("child_process")"#),
        ("a.js", r#"require.call(null, "child_process")"#),
        ("a.js", r#"require.apply(null, ["clus" + "ter"])"#),
        ("a.js", r#"require.bind(null)("cluster")"#),
        ("a.js", r#"require.bind(null, "cluster")()"#),
        ("a.js", r#"Reflect.apply(require, null, [x])"#),
        ("a.js", r#"[require][0](x)"#),
        ("a.js", r#"(function (r) { r(x) })(require)"#),
        ("a.js", r#"module.exports = require"#),
        ("a.js", r#"module.require("child_process")"#),
        ("a.js", r#"module["req" + "uire"]("clus" + "ter")"#),
        ("a.js", r#"module[x]("y")"#),
        ("a.js", r#"const { require: r } = module; r("cluster")"#),
        ("a.js", r#"require.main.require("cluster")"#),
        ("a.js", r#"process.mainModule.require("cluster")"#),
        ("a.js", r#"globalThis.process.mainModule.require("cluster")"#),
        ("a.js", r#"const { mainModule: m } = process; m.require(x)"#),
        ("a.js", r#"arguments[1](x)"#),
        ("a.js", r#"require("module")._load("cluster")"#),
        ("a.js", r#"require("module").prototype.require("cluster")"#),
        ("a.js", r#"module.constructor._load("cluster")"#),
        ("a.js", r#"const M = require("module"); new M("x").require("cluster")"#),
        ("a.js", r#"new (require("module"))("x")._compile("require('cluster')", "x")"#),
        ("a.js", r#"require("node:module").createRequire(__filename)("cluster")"#),
        (
            "a.mjs",
            r#"import { createRequire } from "module"; createRequire(import.meta.url)("cluster")"#,
        ),
        (
            "a.mjs",
            r#"import { createRequire as c } from "node:module"; const r = c("/"); r("cluster")"#,
        ),
        (
            "a.mjs",
            r#"import m from "module"; const require = m.createRequire("/"); require("cluster")"#,
        ),
        ("a.mjs", r#"import * as m from "module"; m["create" + "Require"]("/")("cluster")"#),
        ("a.mjs", r#"const { createRequire: c } = await import("module"); c("/")("cluster")"#),
        ("a.mjs", r#"import("module").then((m) => m.createRequire("/")("cluster"))"#),
        ("a.mjs", r#"import { createRequire } from "module"; export const r = createRequire("/")"#),
        ("a.mjs", r#"export { createRequire } from "module""#),
        ("a.js", r#"process.binding("spawn_sync")"#),
        ("a.js", r#"process.binding("process_" + "wrap")"#),
        ("a.js", r#"process["bind" + "ing"]("spawn_sync")"#),
        ("a.js", r#"process[name]("spawn" + "_sync")"#),
        ("a.js", r#"const p = process; p.binding("worker")"#),
        ("a.js", r#"const { binding } = process; binding(x)"#),
        ("a.js", r#"let b; ({ binding: b } = process); b("spawn_sync")"#),
        ("a.js", r#"const b = process.binding; b("spawn_sync")"#),
        ("a.js", r#"process._linkedBinding("spawn_sync")"#),
        ("a.js", r#"process.getBuiltinModule("child_process")"#),
        ("a.js", r#"process.getBuiltinModule(name)"#),
        ("a.js", r#"const { getBuiltinModule: g } = process; g("cluster")"#),
        ("a.js", r#"globalThis["pro" + "cess"].getBuiltinModule("cluster")"#),
        ("a.js", r#"global.process.getBuiltinModule?.("cluster")"#),
        ("a.mjs", r#"import p from "node:process"; p.getBuiltinModule("cluster")"#),
        ("a.mjs", r#"import { getBuiltinModule as g } from "process"; g("cluster")"#),
        ("a.js", r#"eval("requ" + "ire('cluster')")"#),
        ("a.js", r#"(0, eval)("require('cluster')")"#),
        ("a.js", r#"eval(code)"#),
        ("a.js", r#"const e = eval; e(code)"#),
        ("a.js", r#"globalThis.eval(code)"#),
        ("a.js", r#"new Function("return process.getBuiltinModule('cluster')")()"#),
        ("a.js", r#"Function("a", body)"#),
        ("a.js", r#"Function.apply(null, [body])"#),
        ("a.js", r#"(() => {}).constructor("return process.mainModule.require('cluster')")()"#),
        ("a.js", r#"[].constructor.constructor(code)()"#),
        ("a.js", r#"require("vm").runInThisContext(code)"#),
        ("a.js", r#"new (require("node:vm").Script)("process.binding('spawn_sync')")"#),
        ("a.js", r#"with (process) { binding("spawn_sync") }"#),
        ("a.js", r#"anything[at]("child_process")"#),
        ("a.js", "x\n<!-- import('x')"),
        ("a.js", r#"const x = require("/etc/x.js")"#),
        ("a.js", r#"require("../outside")"#),
        ("a.mjs", r#"import "file:///etc/x.js""#),
        ("a.js", "this is not JavaScript"),
        ("a.ts", r#"import cp = require("child_process")"#),
        ("a.ts", r#"import { type X, spawn } from "child_process""#),
        ("a.ts", r#"(require as any)("cluster"!)"#),
        ("a.cts", r#"const r: NodeRequire = require; r("cluster")"#),
        ("a.tsx", r#"const a = <A b={require("cluster")} />"#),
        ("a.jsx", r#"const a = <A>{require("cluster")}</A>"#),
        ("package.json", r##"{"imports": {"#x": {"node": "node:child_process"}}}"##),
    ];
    for (name, text) in ways {
        assert!(!found(name, text).is_empty(), "{name}: {text}");
    }
}

#[test]
fn what_starts_no_process_passes() {
    let harmless = [
        ("a.mjs", r#"import fs from "node:fs"; import "./b.js"; export * from "path""#),
        ("a.mjs", r#"import cluster from "./cluster.js"; cluster("cluster")"#),
        ("a.mjs", r#"await import("./" + name + ".js"); await import(`lodash/${name}`)"#),
        ("a.js", r#"const fs = require("fs"); require(process.platform ? "./a" : "./b")"#),
        ("a.js", r#"if (require.main === module) main(); typeof require; require.resolve("x")"#),
        ("a.js", r#"function f(require) { require("x") } f(g)"#),
        ("a.js", r#"Object.keys(require.cache); process.exit(1); process.env[name]"#),
        ("a.js", r#"// require("child_process")"#),
        ("a.js", r#"const text = "child_process"; const list = ["worker_threads", "cluster"]"#),
        ("a.js", r#"if (f instanceof Function || f === Function) Function.prototype.call(f)"#),
        ("a.js", r#"const root = typeof self == "object" ? self : Function("return this")()"#),
        ("a.js", r#"process.binding("natives"); foo.binding(x); this.constructor(x)"#),
        ("a.js", "#!/usr/bin/env node\nreturn 1"),
        ("a.ts", r#"import type { ChildProcess } from "child_process""#),
        ("a.ts", r#"let x: import("child_process").ChildProcess; type R = typeof require"#),
        ("a.tsx", r#"export const a = <T,>(b: T) => <A b={b} />"#),
        (
            "a.mjs",
            r#"import { createRequire } from "module"; const require = createRequire(import.meta.url); require("fs")"#,
        ),
        ("package.json", r#"{"main": "./a.js", "exports": {".": "./a.js"}}"#),
    ];
    for (name, text) in harmless {
        assert_eq!(found(name, text), Vec::<String>::new(), "{name}: {text}");
    }
}

/// What esbuild writes at the head of bundles, as it is and minified.
const HELPERS: [&str; 2] = [
    r#"var __require = /* @__PURE__ */ ((x) => typeof require !== "undefined" ? require : typeof Proxy !== "undefined" ? new Proxy(x, {
  get: (a, b) => (typeof require !== "undefined" ? require : a)[b]
}) : x)(function(x) {
  if (typeof require !== "undefined") return require.apply(this, arguments);
  throw Error('Dynamic require of "' + x + '" is not supported');
});
var load = NAME;"#,
    r#"var s=(e=>typeof require<"u"?require:typeof Proxy<"u"?new Proxy(e,{get:(r,t)=>(typeof require<"u"?require:r)[t]}):e)(function(e){if(typeof require<"u")return require.apply(this,arguments);throw Error('Dynamic require of "'+e+'" is not supported')});var load=NAME;"#,
];

#[test]
fn the_require_of_esbuild_is_followed() {
    for (helper, name) in HELPERS.iter().zip(["__require", "s"]) {
        let with = |call: &str| found("a.mjs", &helper.replace("NAME", &format!("{name}({call})")));
        assert_eq!(with(r#""fs""#), Vec::<String>::new());
        assert_eq!(with(r#""child_process""#).len(), 1);
        assert_eq!(with("x").len(), 1);
    }
}

#[test]
fn a_finding_says_where_it_is() {
    let text = "\u{feff}const é = 1;\n  /* é */ require(\"child_process\")\n";
    assert_eq!(found("a.js", text), ["2:19 child_process by require"]);
}
