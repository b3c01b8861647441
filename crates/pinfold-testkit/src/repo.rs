//! A real git repository that goes away with its value.
#![expect(clippy::expect_used, reason = "a test that cannot have its repository has failed")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A git repository in a temporary directory. Its name and the user's settings of this machine
/// play no part in it.
#[derive(Debug)]
pub struct TempRepo {
    dir: TempDir,
    path: PathBuf,
}

impl TempRepo {
    /// Returns an empty repository on branch `main`, with an author of its own.
    ///
    /// # Panics
    /// git is not installed or refuses.
    #[must_use]
    pub fn new() -> Self {
        let dir =
            tempfile::Builder::new().prefix("pinfold-repo-").tempdir().expect("temporary dir");
        // The resolved name: what a process inside sees as its working directory.
        let path = dir.path().canonicalize().expect("resolved name").join("repo");
        fs::create_dir(&path).expect("directory of the repository");
        let this = Self { dir, path };
        this.git(&["init", "--quiet", "--initial-branch=main"]);
        this.git(&["config", "user.name", "Test"]);
        this.git(&["config", "user.email", "test@example.invalid"]);
        this
    }

    /// Returns a repository whose test fails until a sign is corrected: what
    /// [`Script::fix_the_bug`](crate::Script::fix_the_bug) works on.
    ///
    /// # Panics
    /// As [`Self::new`].
    #[must_use]
    pub fn with_bug() -> Self {
        let this = Self::new();
        this.write("sum.sh", "#!/bin/sh\n# Prints the sum of two numbers.\necho $(($1 - $2))\n");
        this.write(
            "test.sh",
            "#!/bin/sh\nset -eu\ncd \"$(dirname \"$0\")\"\ngot=$(sh sum.sh 2 3)\n\
             if [ \"$got\" = 5 ]; then echo 'all tests passed'; exit 0; fi\n\
             echo \"FAILED: 2 + 3 gives $got\" >&2\nexit 1\n",
        );
        for script in ["sum.sh", "test.sh"] {
            let path = this.path.join(script);
            fs::set_permissions(path, Permissions::from_mode(0o755)).expect("mode");
        }
        this.commit("Add a sum that is wrong");
        this
    }

    /// Returns its directory, without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the private directory around it, for worktrees and scratch homes.
    #[must_use]
    pub fn outer(&self) -> &Path {
        self.path.parent().unwrap_or(self.dir.path())
    }

    /// Writes a file and the directories above it.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn write(&self, file: &str, content: &str) {
        let path = self.path.join(file);
        fs::create_dir_all(path.parent().expect("a file has a parent")).expect("directories");
        fs::write(path, content).expect("file");
    }

    /// Reads a file.
    ///
    /// # Panics
    /// The file cannot be read.
    #[must_use]
    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path.join(file)).expect("file")
    }

    /// Commits everything there is.
    ///
    /// # Panics
    /// git refuses.
    pub fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    /// Runs git in the repository and gives what it printed.
    ///
    /// # Panics
    /// git fails.
    pub fn git(&self, args: &[&str]) -> String {
        let output = self.run("git", args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a program in the repository, without the settings of this machine's user.
    ///
    /// # Panics
    /// The program cannot be started.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "test support, not part of pinfold")]
    pub fn run(&self, program: &str, args: &[&str]) -> Output {
        Command::new(program)
            .args(args)
            .current_dir(&self.path)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .output()
            .expect("program starts")
    }
}

impl Default for TempRepo {
    fn default() -> Self {
        Self::new()
    }
}
