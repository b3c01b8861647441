//! A start on a snapshot that is there, against a start on this machine's own system.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use super::sample::{Contender, in_turns, print};
use super::start::base;
use super::{Effort, Outcome, command};

const BUSYBOX: &str = "/bin/busybox";
const SETTINGS: &str = r#"{"snapshot": {"base": "../base.tar",
    "setupCommands": ["echo x >/opt/x; echo y >/usr/y; echo z >~/z"]}}"#;

pub(super) fn run(pinfold: &Path, effort: Effort) -> Outcome {
    println!("\nstart on a snapshot to exit of `true` ({} starts each, in turns)", effort.starts);
    if !Path::new(BUSYBOX).exists() {
        println!("  {BUSYBOX} is not installed: skipped");
        return Ok(());
    }
    let directory = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
    let home = directory.path();
    for name in ["plain", "ws", "root/bin", "root/etc", "root/lib", "root/usr/bin", "root/var"] {
        fs::create_dir_all(home.join(name))?;
    }
    fs::copy(BUSYBOX, home.join("root/bin/busybox"))?;
    symlink("busybox", home.join("root/bin/sh"))?;
    fs::write(home.join("ws/sandbox.json"), SETTINGS)?;
    let within = |workspace: &str, program: &Path, args: &[&str]| {
        let mut command = command(program);
        command.args(args).current_dir(home.join(workspace)).env("HOME", home);
        for name in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null());
        command
    };
    for (program, args) in [
        (Path::new("tar"), &["-cf", "../base.tar", "-C", "../root", "."][..]),
        (pinfold, &["trust", "--yes"]),
        (pinfold, &["snapshot", "build"]),
    ] {
        let output = within("ws", program, args).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
    }
    let start = ["run", "--", BUSYBOX, "true"];
    let mut contenders = [
        Contender::new("own system", within("plain", pinfold, &start)),
        Contender::new("snapshot", within("ws", pinfold, &start)),
    ];
    in_turns(&mut contenders, effort.starts)?;
    print(&contenders, "own system");
    Ok(())
}
