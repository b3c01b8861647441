//! The same package as a library.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use pinfold_testkit::agent::cache;
use pinfold_testkit::skip;
use serde_json::json;

use super::Scene;

#[test]
fn the_names_of_moltnet_do_what_they_do_there_and_the_types_are_strict() {
    let script = json!({ "steps": [
            { "bash": "echo HOST $(hostname) >inside", "usage": { "input": 3, "output": 2 } },
            { "tool": { "name": "submit_freeform_output", "input": { "summary": "done inside" } } },
            { "text": "done" },
        ] });
    let Some(scene) = Scene::new("names of MoltNet", "0.87.1", &script) else { return };
    let modules = scene.stage.path("extension/node_modules");
    fs::create_dir_all(&modules).unwrap();
    let packages = scene.pi.tree.join("node_modules");
    for package in ["@earendil-works", "typebox"] {
        symlink(packages.join(package), modules.join(package)).unwrap();
    }
    let (node, cli) = scene.pi.command();
    let mut test = scene.stage.command(&node);
    test.args([
        "--experimental-strip-types",
        "--test",
        "--test-concurrency=1",
        "--test-timeout=100000",
        "--test-reporter",
        "tap",
    ])
    .arg(scene.stage.path("extension/test/embed.test.ts"))
    .arg(scene.stage.path("extension/test/tasks.test.ts"))
    .env("WORKSPACE", scene.repo.path())
    .env("PI", json!([node, cli]).to_string());
    scene.surround(&mut test);
    let output = test.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    strict(&scene, &modules);
}

/// Has the compiler of TypeScript look at it all.
fn strict(scene: &Scene, modules: &Path) {
    let kept = cache(scene.stage.user).join("typescript");
    if !kept.join("node_modules/typescript").exists() {
        let mut npm = scene.stage.command("npm");
        npm.args(["install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix"])
            .arg(&kept);
        npm.args(["--fetch-retries", "1", "typescript@5.9.3", "@types/node@22.18.0"]);
        // The system's authorities, and not node's own.
        npm.env("NODE_EXTRA_CA_CERTS", "/etc/ssl/certs/ca-certificates.crt");
        let output = npm.output().unwrap();
        if !output.status.success() {
            return skip("types", &String::from_utf8_lossy(&output.stderr));
        }
    }
    symlink(kept.join("node_modules/@types"), modules.join("@types")).unwrap();
    let node = scene.pi.command().0;
    let compile = |project: &str| {
        let mut compiler = scene.stage.command(&node);
        compiler.arg(kept.join("node_modules/typescript/bin/tsc")).arg("-p");
        let output = compiler.arg(scene.stage.path("extension").join(project)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    };
    compile("tsconfig.json");
    compile("tsconfig.build.json");
    // What was built is what a program imports.
    let script = "import('@pinfold/pi').then((all) => console.log(Object.keys(all).sort().join()))";
    let installed = scene.stage.path("program/node_modules/@pinfold");
    fs::create_dir_all(&installed).unwrap();
    symlink(scene.stage.path("extension"), installed.join("pi")).unwrap();
    let mut import = scene.stage.command(&node);
    let program = scene.stage.path("program");
    let output = import.args(["-e", script]).current_dir(program).output().unwrap();
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let expected = "AgentRuntime,ApiError,ApiTaskReporter,ApiTaskSource,Connection,PinfoldError,Sandbox,\
        activateAgentEnv,createGondolinBashOps";
    assert!(names.starts_with(expected), "{names} {}", String::from_utf8_lossy(&output.stderr));
}
