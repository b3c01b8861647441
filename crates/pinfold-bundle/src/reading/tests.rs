use std::fs;
use std::path::Path;

use super::{Answer, answer};
use crate::{Bundle, NodeModules};

/// Returns what is found in a bundle of one file, as `line:column what`.
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
        ("a.js", r#"const f = () => require; f()("clus" + "ter")"#),
        ("a.js", r#"function f(r = require) { r("cluster") }"#),
        ("a.js", r#"class A { static r = require }"#),
        ("a.js", r#"((m) => m.require(n))(module)"#),
        ("a.js", r#"Object.getPrototypeOf(module).require.call(module, n)"#),
        ("a.js", r#"Object.values(require.cache)[0].require("cluster")"#),
        ("a.js", r#"(({ require: r }) => r(n))(module)"#),
        ("a.js", r#"require.extensions[".txt"] = f"#),
        ("a.js", r#"const A = (async () => {}).constructor; new A(code)"#),
        ("a.js", r#"Object.getPrototypeOf(async function () {}).constructor(code)()"#),
        ("a.js", r#"Function.prototype.constructor(code)()"#),
        ("a.js", r#"x["constructor"]["constr" + "uctor"](code)()"#),
        ("a.js", r#"class A extends Function {}"#),
        ("a.js", "var a = 1, b = 1;\na<!--b /*\nrequire('child_process')\n//*/"),
        ("a.mjs", r#"import "NODE:child_process""#),
        ("a.mjs", r#"import " node:clu\nster""#),
        ("a.mjs", r#"import("DATA:text/javascript,import'cluster'")"#),
        ("a.mjs", r#"import("NO" + x)"#),
        ("a.ts", r#"import g = process.getBuiltinModule; g("clus" + "ter")"#),
        ("package.json", r##"{"imports": {"#x": {"node": "node:child_process"}}}"##),
        ("package.json", r##"{"imports": {"#x": " cluster"}}"##),
        ("package.json", r##"{"imports": {"#x/*": "*"}}"##),
        ("package.json", r##"{"imports": {"#x/*": {"default": ["./a/*", "node:*"]}}}"##),
        ("package.json", r##"{"imports": {"#x/*": "child*ess"}}"##),
    ];
    for (name, text) in ways {
        assert!(!found(name, text).is_empty(), "{name}: {text}");
    }
}

#[test]
fn code_that_starts_no_process_passes() {
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
        ("package.json", r##"{"imports": {"#x/*": "./src/*.js", "#y/*": "lodash/*"}}"##),
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

/// Numbers that look random and are the same in every run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize
    }
}

/// Code to begin with, in every language.
const SEEDS: [(&str, &str); 5] = [
    ("a.mjs", include_str!("../../../../integrations/node/register.mjs")),
    ("a.js", HELPERS[0]),
    (
        "a.cjs",
        "const { x: [r = require] = [], ...q } = module; label: for (const a of b) { with (c) `${r(`x`)}`; } \
         class A extends (0, eval) { static #p = process['bind' + 'ing']; get [p]() { return new.target } }",
    ),
    (
        "a.ts",
        "import type { A } from 'child_process'; import b = require('os'); enum E { A = 'x' } \
         namespace N { export const r: typeof require = require as any } @d() abstract class C<T> {}",
    ),
    (
        "a.tsx",
        "export default async <T,>(a: T) => <><A b={require('x')} {...c}>{await import(`y`)}</A></>",
    ),
];

#[test]
fn no_text_makes_the_reader_panic() {
    let mut numbers = Numbers(0x5eed);
    for round in 0..3_000 {
        let (name, seed) = SEEDS[round % SEEDS.len()];
        let mut text = seed.as_bytes().to_vec();
        for _ in 0..=numbers.next() % 8 {
            let (at, other) = (numbers.next() % text.len().max(1), numbers.next() % seed.len());
            let end = (at + numbers.next() % 12).min(text.len());
            match numbers.next() % 4 {
                0 => drop(text.drain(at.min(end)..end)),
                1 => text.insert(at.min(text.len()), numbers.next() as u8),
                2 => {
                    let piece = &seed.as_bytes()[other..(other + 20).min(seed.len())];
                    let at = at.min(text.len());
                    text.splice(at..at, piece.iter().copied());
                }
                _ => text.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 0x20),
            }
        }
        let text = String::from_utf8_lossy(&text);
        // What it finds is no matter, and where has to be in the text.
        for spot in crate::inspect::inspect(Path::new(name), &text).spots {
            let (line, column) = crate::position::of(&text, spot.offset);
            assert!(line >= 1 && column >= 1 && spot.offset as usize <= text.len());
        }
        let noise: Vec<u8> = (0..numbers.next() % 200).map(|_| numbers.next() as u8).collect();
        crate::inspect::inspect(Path::new(name), &String::from_utf8_lossy(&noise));
        crate::manifest::inspect(&text);
    }
}
