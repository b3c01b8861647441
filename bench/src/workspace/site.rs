//! The repository that is worked on, and what the work reads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::{Effort, Outcome, command, peers, work};

/// A package of which npm makes more than a thousand, and one for a short run.
const PACKAGES: [&str; 2] = [r#""react-scripts": "5.0.1""#, r#""express": "4.21.2""#];
/// More files than these make a full run.
const SHORT: usize = 5_000;

/// A repository with a branch `other` that differs in every file, and pinfold's state on the same disk.
pub(super) struct Site {
    directory: tempfile::TempDir,
    pinfold: PathBuf,
    /// Packages and what npm has of them, which later benchmarks find again.
    packages: Option<PathBuf>,
}

impl Site {
    /// Makes it in a directory, which should not be in memory.
    pub(super) fn make(
        pinfold: &Path,
        on: &Path,
        effort: Effort,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let directory = tempfile::Builder::new().prefix("bench").tempdir_in(on)?;
        let site = Self { directory, pinfold: pinfold.to_owned(), packages: None };
        for name in ["ws/src", "input", "state"] {
            fs::create_dir_all(site.directory.path().join(name))?;
        }
        site.files(effort.files)?;
        work::make_crate(&site.input())?;
        let packages = site.packages(effort)?;
        Ok(Self { packages, ..site })
    }

    fn files(&self, files: usize) -> Outcome {
        let source = self.workspace().join("src");
        for index in 0..files {
            let directory = source.join(format!("d{}", index / 50));
            if index % 50 == 0 {
                fs::create_dir_all(&directory)?;
            }
            let text = format!("line {index}\n").repeat(20);
            fs::write(directory.join(format!("f{index}.txt")), text)?;
        }
        self.shell(
            "tar -cf ../input/tree.tar -C src .; git init -q -b main .; \
             git config user.name b; git config user.email b@example.org; \
             echo /out >.gitignore; git add -A; git commit -qm one; git checkout -q -b other; \
             find src -type f -exec sed -i s/line/other/ {} +; git commit -qam two; \
             git checkout -q main; git gc -q",
        )
    }

    /// Downloads what npm will install, once for all benchmarks, or says why there is nothing.
    fn packages(&self, effort: Effort) -> Result<Option<PathBuf>, Box<dyn std::error::Error>> {
        let [many, few] = PACKAGES;
        let (name, wanted) = if effort.files > SHORT { ("many", many) } else { ("few", few) };
        let kept = self.pinfold.with_file_name("bench-packages").join(name);
        if peers::exists("npm") && !kept.join("done").exists() {
            fs::create_dir_all(&kept)?;
            let manifest = format!(r#"{{"name": "bench", "dependencies": {{{wanted}}}}}"#);
            fs::write(kept.join("package.json"), manifest)?;
            let mut npm = self.command("npm", &["install", "--cache", "npm", "--ignore-scripts"]);
            npm.args(["--no-audit", "--no-fund", "--no-omit-lockfile-registry-resolved"]);
            if npm.current_dir(&kept).status()?.success() {
                fs::remove_dir_all(kept.join("node_modules"))?;
                fs::write(kept.join("done"), "")?;
            }
        }
        if !kept.join("done").exists() {
            return Ok(None);
        }
        let from = kept.display();
        self.shell(&format!("cp -a {from}/package.json {from}/package-lock.json ../input"))?;
        self.shell(&format!("cp -a {from}/npm ../input/npm"))?;
        Ok(Some(kept))
    }

    pub(super) fn has_packages(&self) -> bool {
        self.packages.is_some()
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.directory.path().join("ws")
    }

    /// Returns what the work reads.
    pub(super) fn input(&self) -> PathBuf {
        self.directory.path().join("input")
    }

    /// Returns the layers of an overlay without pinfold.
    pub(super) fn layers(&self) -> PathBuf {
        self.directory.path().join("layers")
    }

    /// Returns the branch of the worktrees that are made for one run.
    pub(super) fn branch(&self) -> &'static str {
        "bench"
    }

    /// Returns the file system that everything lies on, with its options.
    pub(super) fn kind_of_disk(&self) -> Option<String> {
        let mut find = self.command("findmnt", &["-n", "-r", "-o", "FSTYPE,OPTIONS", "-T", "."]);
        let output = find.stdout(Stdio::piped()).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|it| !it.is_empty())
    }

    /// Returns a program in the workspace, with pinfold's files next to it.
    pub(super) fn command(&self, program: impl AsRef<Path>, args: &[&str]) -> Command {
        let mut command = command(program);
        command.args(args).current_dir(self.workspace()).env("GIT_CONFIG_GLOBAL", "/dev/null");
        for name in ["XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env(name, self.directory.path().join("state"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs a script in the workspace, which has to succeed.
    pub(super) fn shell(&self, script: &str) -> Outcome {
        let output = self.command("/bin/sh", &["-ec", script]).stderr(Stdio::piped()).output()?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(format!("{script}: {}\n{words}", output.status).into())
    }

    /// Returns a session of pinfold; the words are its options, `--`, and the command.
    pub(super) fn session(&self, mode: &str, words: &[&str]) -> Command {
        let input = self.input().to_string_lossy().into_owned();
        let mut session =
            self.command(&self.pinfold, &["run", "--workspace", mode, "--read", &input]);
        session.args(words);
        session
    }

    /// Returns pinfold itself.
    pub(super) fn pinfold(&self, words: &[&str]) -> Command {
        self.command(&self.pinfold, words)
    }

    /// Drops what a session left, if it left anything.
    pub(super) fn discard(&self) -> Outcome {
        self.pinfold(&["discard"]).status()?;
        Ok(())
    }

    /// Removes the worktree of one run with its branch, if they are there.
    pub(super) fn remove_worktree(&self) -> Outcome {
        let branch = self.branch();
        self.shell(&format!(
            "git worktree remove --force ../ws-{branch} || true; git branch -qD {branch} || true"
        ))
    }
}
