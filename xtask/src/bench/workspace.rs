//! The workspace modes against the checkout itself, and taking changes over against `cp` and `git`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::sample::{Contender, print};
use super::start::base;
use super::{Effort, Outcome, command};

/// A piece of work, as a shell command in the workspace, which leaves it as it was.
const PIECES: [(&str, &str); 3] = [
    ("untar of 10 000 files", "mkdir out && tar -xf small.tar -C out && rm -r out"),
    ("git checkout of all files, and back", "git checkout -q other && git checkout -q main"),
    ("chmod of all files, and back", "chmod -R g+x src && chmod -R g-x src"),
];

/// A home, and a workspace with a repository.
struct Site {
    directory: tempfile::TempDir,
    pinfold: PathBuf,
}

pub(super) fn run(pinfold: &Path, effort: Effort) -> Outcome {
    println!("\nworkspace modes ({} rounds each, in turns)", effort.rounds);
    let directory = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
    let site = Site { directory, pinfold: pinfold.to_owned() };
    site.make(effort.files)?;
    for (name, script) in PIECES {
        println!(" {name}");
        site.piece(script, effort.rounds)?;
    }
    site.review(effort)
}

impl Site {
    fn workspace(&self) -> PathBuf {
        self.directory.path().join("ws")
    }

    fn command(&self, program: impl AsRef<Path>, args: &[&str]) -> Command {
        let mut command = command(program);
        command
            .args(args)
            .current_dir(self.workspace())
            .env("HOME", self.directory.path())
            .env_remove("XDG_STATE_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn shell(&self, script: &str) -> Outcome {
        timed(&mut self.command("/bin/sh", &["-ec", script])).map(drop)
    }

    fn session(&self, mode: &str, script: &str) -> Command {
        let words = ["run", "--workspace", mode, "--", "/bin/sh", "-ec", script];
        self.command(&self.pinfold, &words)
    }

    fn make(&self, files: usize) -> Outcome {
        let workspace = self.workspace();
        for index in 0..files {
            let directory = workspace.join(format!("src/d{}", index / 50));
            if index % 50 == 0 {
                fs::create_dir_all(&directory)?;
            }
            let text = format!("line {index}\n").repeat(20);
            fs::write(directory.join(format!("f{index}.txt")), text)?;
        }
        self.shell(&format!(
            "mkdir small; for i in $(seq {}); do echo content >small/$i; done; \
             tar -cf small.tar small; rm -r small; git init -q -b main .; \
             git config user.name b; git config user.email b@example.org; git add -A; \
             git commit -qm one; git checkout -q -b other; \
             find src -type f -exec sed -i s/line/other/ {{}} +; git commit -qam two; \
             git checkout -q main",
            10_000.min(files)
        ))
    }

    /// The same work in the checkout, in a shared workspace and in a view of it.
    fn piece(&self, script: &str, rounds: usize) -> Outcome {
        let outside = self.command("/bin/sh", &["-ec", script]);
        let shared = self.session("shared_mount", script);
        let view = self.session("overlay", script);
        let mut contenders = [
            Contender::new("outside", outside),
            Contender::new("shared_mount", shared),
            Contender::new("overlay", view),
        ];
        for round in 0..=rounds {
            for contender in &mut contenders {
                let time = timed(&mut contender.command)?;
                if round > 0 {
                    contender.times.push(time);
                }
                self.discard();
            }
        }
        print(&contenders, "outside");
        Ok(())
    }

    /// Drops what a session left, if it left anything.
    fn discard(&self) {
        let _ = self.command(&self.pinfold, &["discard"]).status();
    }

    /// `diff` and `apply` of changed files, half of them or 10 000 at most.
    fn review(&self, effort: Effort) -> Outcome {
        let count = (effort.files / 2).min(10_000);
        println!(" {count} changed files");
        let change =
            format!("find src -type f | sort | head -n {count} | xargs sed -i s/line/new/");
        self.shell("cp -a src ../before; cp -a src ../after; cp -a src ../target")?;
        self.shell(&format!("cd ../after; mkdir src; mv d* src; {change}; mv src/* .; rmdir src"))?;
        let list = format!(
            "cd ../after; find . -type f | sort | head -n {count} >../list; \
             cpio -pdum ../only <../list 2>/dev/null || xargs cp -a --parents -t ../only <../list"
        );
        self.shell(&format!("mkdir ../only; {list}"))?;
        let mut contenders = [
            (
                "git diff --no-index",
                self.command(
                    "/bin/sh",
                    &["-c", "git diff --no-index ../before ../after >/dev/null || true"],
                ),
            ),
            ("pinfold diff", self.command(&self.pinfold, &["diff"])),
            ("cp -a", self.command("/bin/sh", &["-ec", "cp -a ../only/. ../target"])),
            (
                "cp -a and sync -f",
                self.command("/bin/sh", &["-ec", "cp -a ../only/. ../target; sync -f ../target"]),
            ),
            ("pinfold apply", self.command(&self.pinfold, &["apply"])),
        ]
        .map(|(name, command)| Contender::new(name, command));
        for round in 0..=effort.rounds {
            timed(&mut self.session("overlay", &change))?;
            for contender in &mut contenders {
                let time = timed(&mut contender.command)?;
                if round > 0 {
                    contender.times.push(time);
                }
            }
            self.shell("git checkout -q .")?;
        }
        print(&contenders, "cp -a");
        print(&contenders[..2], "git diff --no-index");
        Ok(())
    }
}

fn timed(command: &mut Command) -> Result<Duration, Box<dyn std::error::Error>> {
    let before = Instant::now();
    let status = command.status()?;
    let time = before.elapsed();
    if status.success() { Ok(time) } else { Err(format!("{command:?} failed: {status}").into()) }
}
