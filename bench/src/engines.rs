//! Containers of other engines, to execute something in.

use std::path::Path;
use std::process::{Command, Stdio};

use super::command;

/// The image, which holds busybox alone and is made here.
const IMAGE: &str = "localhost/pinfold-bench:busybox";
/// Where Debian has a static one.
const BUSYBOX: &str = "/usr/bin/busybox";

/// An engine, and what it needs where control groups and limits are not its own to set.
pub(super) struct Engine {
    pub(super) name: &'static str,
    global: &'static [&'static str],
    run: &'static [&'static str],
}

pub(super) const ENGINES: [Engine; 2] = [
    Engine { name: "docker", global: &[], run: &["--network", "none"] },
    Engine {
        name: "podman",
        global: &["--cgroup-manager=cgroupfs", "--runtime=runc"],
        run: &["--network=none", "--ulimit=nofile=1024:4096", "--ulimit=nproc=4096:4096"],
    },
];

/// A container that waits until this value is dropped.
pub(super) struct Container {
    engine: &'static Engine,
    id: String,
}

impl Container {
    /// Starts one.
    ///
    /// # Errors
    /// Why this engine is not usable here, in its words.
    pub(super) fn start(engine: &'static Engine, scratch: &Path) -> Result<Self, String> {
        let root = scratch.join("root");
        let said = |error: std::io::Error| error.to_string();
        std::fs::create_dir_all(root.join("bin")).map_err(said)?;
        for applet in ["busybox", "sh", "true", "sleep"] {
            std::fs::copy(BUSYBOX, root.join("bin").join(applet)).map_err(said)?;
        }
        let archive = scratch.join("root.tar");
        let mut tar = command("tar");
        output(tar.arg("-C").arg(&root).arg("-cf").arg(&archive).arg("."))?;
        output(engine.command(&["import"]).arg(&archive).arg(IMAGE))?;
        let mut run = engine.command(&["run", "--detach", "--rm"]);
        let id = output(run.args(engine.run).args([IMAGE, "/bin/sleep", "3600"]))?;
        Ok(Self { engine, id: id.trim().to_owned() })
    }

    /// Returns what executes `true` in it.
    pub(super) fn exec(&self) -> Command {
        let mut exec = self.engine.command(&["exec"]);
        exec.args([&self.id, "/bin/true"]);
        exec
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // What is left of it is the engine's to show.
        let _ = output(self.engine.command(&["kill"]).arg(&self.id));
    }
}

impl Engine {
    fn command(&self, words: &[&str]) -> Command {
        let mut engine = command(self.name);
        engine.args(self.global).args(words);
        engine
    }
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}
