//! Package managers, from a registry over TLS.

use std::path::{Path, PathBuf};

use pinfold_testkit::{Stage, skip};

use super::World;
use super::world::people_with;

const ALLOWED: [&str; 2] = ["--allow-host", "registry.example.org"];
const INTERCEPTED: [&str; 4] =
    ["--allow-host", "registry.example.org", "--intercept", "registry.example.org"];

pub(super) fn packages(stage: &Stage) {
    let script = stage.write("world/registry.py", include_str!("registry.py"));
    let made = stage.command("python3").arg(script).arg(stage.path("world")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn npm_installs_from_a_registry() {
    for user in people_with("npm", &["node", "npm"]) {
        let world = World::prepared(user, &["registry"], packages);
        let script = "rm -rf node_modules package*; echo '{}' > package.json; \
            npm install --silent --no-audit --no-fund --no-update-notifier \
            --registry https://registry.example.org/files/npm/ tiny && node -p \"require('tiny')\"";
        // npm trusts Node's own authorities and those that it is given.
        let own = format!(
            "export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt; \
             export npm_config_cafile=/etc/ssl/certs/ca-certificates.crt; {script}"
        );
        // Where another host's TLS is ended npm is given an authority, and still trusts the rest.
        let other = [&ALLOWED[..], &["--intercept", "other.example.org"]].concat();
        let runs = [(&ALLOWED[..], own.as_str()), (&INTERCEPTED, script), (&other, script)];
        for said in runs.map(|(options, script)| world.shell(options, script)) {
            assert_eq!(
                (said.err.as_str(), said.out.contains("tiny by npm")),
                ("pinfold: changed, and your tools run it: package.json\n", true),
                "{}",
                said.out
            );
        }
    }
}

#[test]
fn pip_installs_from_a_registry() {
    for user in people_with("pip", &["pip3"]) {
        let world = World::prepared(user, &["registry"], packages);
        let script = "rm -rf out; pip3 install -q --disable-pip-version-check --no-cache-dir \
            --root-user-action ignore --target out $CERT \
            --index-url https://registry.example.org/files/simple/ tiny && \
            PYTHONPATH=out python3 -c 'import tiny; print(tiny.NAME)'";
        let own = format!("CERT='--cert /etc/ssl/certs/ca-certificates.crt'; {script}");
        for said in [world.shell(&ALLOWED, &own), world.shell(&INTERCEPTED, script)] {
            assert_eq!((said.err.as_str(), said.out.as_str()), ("", "tiny by pip\n"));
        }
    }
}

/// The directory of the toolchain that runs this test.
pub(super) fn toolchain() -> Option<PathBuf> {
    let cargo = std::env::var_os("CARGO")?;
    let bin = Path::new(&cargo).canonicalize().ok()?.parent()?.to_owned();
    bin.join("rustc").exists().then(|| bin.parent().map(Path::to_owned))?
}

#[test]
fn cargo_fetches_from_a_registry() {
    let Some(toolchain) = toolchain() else {
        return skip("cargo", "no toolchain runs this test");
    };
    for user in people_with("cargo", &[]) {
        if !user.is_root() && toolchain.starts_with("/root") {
            skip("cargo as an ordinary user", "the toolchain is root's");
            continue;
        }
        let world = World::prepared(user, &["registry"], packages);
        world.stage.write("ws/src/lib.rs", "");
        world.stage.write(
            "ws/Cargo.toml",
            "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
             [dependencies]\ntiny = { version = \"1\", registry = \"local\" }\n",
        );
        let path = toolchain.display();
        let script = format!(
            "export CARGO_HOME=$PWD/.cargo-home PATH={path}/bin:$PATH; rm -rf $CARGO_HOME; \
             export CARGO_REGISTRIES_LOCAL_INDEX=sparse+https://registry.example.org/files/index/; \
             cargo fetch -q && ls .cargo-home/registry/src/*"
        );
        let read = ["--read".to_owned(), path.to_string()];
        for network in [&ALLOWED[..], &INTERCEPTED] {
            let options: Vec<&str> =
                read.iter().map(String::as_str).chain(network.iter().copied()).collect();
            let said = world.shell(&options, &script);
            assert_eq!((said.err.as_str(), said.out.as_str()), ("", "tiny-1.0.0\n"));
        }
    }
}
