//! Apple's `container`, on macOS: each container has a virtual machine, and in it a kernel, of its own.
//!
//! Written from its command reference (apple/container, docs/command-reference.md, version 0.7 and later),
//! and not yet tried on a machine that has it.

use std::path::PathBuf;

use pinfold_boundary::managed::{Container, Lacks, Manager, Mount};
use pinfold_boundary::{Finding, LaunchError};
use pinfold_host::Refusal;
use pinfold_host::launcher::Launcher;

use super::{EMPTY, LABEL, leftovers};

/// Its program.
const PROGRAM: &str = "container";
const MIB: u64 = 1 << 20;

/// Apple's `container`.
#[derive(Debug)]
pub struct Apple {
    launcher: Launcher,
    /// Directories in which a sandbox may have written.
    not_in: Vec<PathBuf>,
}

impl Apple {
    /// Returns it; its program is not taken from these directories.
    pub fn new(launcher: Launcher, not_in: Vec<PathBuf>) -> Self {
        Self { launcher, not_in }
    }

    /// Returns whether its program is on this machine.
    pub fn is_installed(&self) -> bool {
        self.launcher.find(PROGRAM, &self.not_in).is_ok()
    }

    /// Has something done that is done at once, until the user interrupts it; what it answers.
    fn command(&self, words: &[String]) -> Result<String, Refusal> {
        self.command_by(&self.launcher.interruptible()?, words)
    }

    fn command_by(&self, launcher: &Launcher, words: &[String]) -> Result<String, Refusal> {
        let program = launcher.find(PROGRAM, &self.not_in)?;
        let argv =
            [program.path().as_os_str().to_owned()].into_iter().chain(words.iter().map(Into::into));
        let output = program.launcher().run_keeping(argv.collect(), &[])?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.code {
            Some(0) => Ok(text(&output.stdout)),
            _ => Err(text(&output.stderr).lines().last().unwrap_or("it says nothing").into()),
        }
    }

    /// Makes the image, which has nothing in it, if it is not there.
    fn make_empty(&self, container: &Container) -> Result<(), Refusal> {
        if self.command(&words(&["image", "inspect", EMPTY])).is_ok() {
            return Ok(());
        }
        let context = container.seccomp.as_path().with_file_name("empty");
        let file = context.join("Dockerfile");
        let made = std::fs::create_dir_all(&context)
            .and_then(|()| std::fs::write(&file, format!("FROM scratch\nLABEL {LABEL}=none\n")));
        made.map_err(Refusal::about(file.display()))?;
        let place = context.display().to_string();
        self.command(&words(&["build", "--quiet", "--tag", EMPTY, &place])).map(drop)
    }

    fn error(&self, said: &Refusal) -> LaunchError {
        let said = said.to_string();
        let hint = "`container system start` starts it".to_owned();
        LaunchError::Engine { engine: self.name(), said, hint: Some(hint) }
    }
}

impl Manager for Apple {
    fn label(&self) -> &'static str {
        "container (apple)"
    }

    fn name(&self) -> &'static str {
        "apple"
    }

    /// Returns both are the virtual machine's.
    fn lacks(&self) -> Result<Lacks, LaunchError> {
        Ok(Lacks::default())
    }

    fn probe(&self) -> Vec<Finding> {
        match self.command(&words(&["list", "--all", "--quiet"])) {
            Ok(names) => {
                leftovers(names.lines(), |name| format!("{PROGRAM} delete --force {name}"))
            }
            Err(what) => {
                let hint = Some("`container system start` starts it".to_owned());
                vec![Finding { what: what.to_string(), hint, fatal: true }]
            }
        }
    }

    fn start(&self, container: &Container) -> Result<(), LaunchError> {
        let started = self.make_empty(container).and_then(|()| self.command(&run(container)?));
        started.map(drop).map_err(|said| {
            self.remove(container);
            self.error(&said)
        })
    }

    fn remove(&self, container: &Container) {
        // One that is not there is what was wanted. It is removed, too, after an interrupt.
        let _ = self.command_by(&self.launcher, &words(&["delete", "--force", &container.name]));
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Runs a container in the background, of which nothing is left when it ends. It has neither an option for
/// system calls nor for capabilities: what is in the machine has a kernel to itself.
///
/// # Errors
/// Returns an error for a path that its options have no way to say.
fn run(container: &Container) -> Result<Vec<String>, Refusal> {
    let (uid, gid) = container.user;
    let fixed = ["run", "--detach", "--rm", "--read-only", "--network=none", "--no-dns"];
    let mut said = words(&fixed);
    said.push("--progress=none".to_owned());
    said.push(format!("--user={uid}:{gid}"));
    said.push(format!("--name={}", container.name));
    said.push(format!("--label={LABEL}={}", container.session));
    // It has whole CPUs and mebibytes.
    said.extend(container.cpus.map(|share| format!("--cpus={}", share.div_ceil(1000).max(1))));
    said.extend(container.memory.map(|bytes| format!("--memory={}M", (bytes / MIB).max(1))));
    for mount in &container.mounts {
        said.push(format!("--mount={}", bound(mount)?));
    }
    said.push(EMPTY.to_owned());
    said.extend(container.argv.iter().cloned());
    Ok(said)
}

/// Returns a mount as fields between commas, without a way to quote one.
fn bound(Mount { from, to, is_writable }: &Mount) -> Result<String, Refusal> {
    let source = from.as_path().display().to_string();
    if source.contains(',') {
        return Err(Refusal::new(format!(
            "{}: it cannot mount what has a comma in its path",
            from.escaped()
        )));
    }
    let access = if *is_writable { "" } else { ",readonly" };
    Ok(format!("type=bind,source={source},target={to}{access}"))
}

#[cfg(test)]
mod tests {
    use pinfold_policy::path::HostPath;

    use super::*;

    /// The options of `container run` that its command reference and its sources describe.
    const DOCUMENTED: [&str; 13] = [
        "--cpus",
        "--detach",
        "--label",
        "--memory",
        "--mount",
        "--name",
        "--network",
        "--no-dns",
        "--progress",
        "--read-only",
        "--rm",
        "--ulimit",
        "--user",
    ];

    fn container(path: &str) -> Container {
        let host = |path: &str| HostPath::new(path).unwrap();
        Container {
            name: "pinfold-0123456789ab".to_owned(),
            session: "0123456789ab".to_owned(),
            mounts: [("/usr", false), (path, true)]
                .into_iter()
                .enumerate()
                .map(|(at, (from, is_writable))| Mount {
                    from: host(from),
                    to: format!("/run/pinfold/grants/{at}"),
                    is_writable,
                })
                .collect(),
            user: (501, 20),
            argv: words(&["/run/pinfold/init", "managed-init"]),
            seccomp: host("/tmp/seccomp.json"),
            cpus: Some(1500),
            memory: Some(512 * MIB + 1),
        }
    }

    #[test]
    fn a_container_is_asked_for_in_documented_words() {
        let said = run(&container("/Users/a/my repo")).unwrap();
        assert_eq!(
            said,
            [
                "run",
                "--detach",
                "--rm",
                "--read-only",
                "--network=none",
                "--no-dns",
                "--progress=none",
                "--user=501:20",
                "--name=pinfold-0123456789ab",
                "--label=dev.pinfold.session=0123456789ab",
                "--cpus=2",
                "--memory=512M",
                "--mount=type=bind,source=/usr,target=/run/pinfold/grants/0,readonly",
                "--mount=type=bind,source=/Users/a/my repo,target=/run/pinfold/grants/1",
                "pinfold-empty:1",
                "/run/pinfold/init",
                "managed-init",
            ]
        );
        let options = said.iter().filter(|word| word.starts_with("--"));
        for option in options.map(|word| word.split('=').next().unwrap()) {
            assert!(DOCUMENTED.contains(&option), "{option}");
        }
    }

    #[test]
    fn a_path_that_no_option_can_say_is_refused() {
        let error = run(&container("/Users/a/x,readonly")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "/Users/a/x,readonly: it cannot mount what has a comma in its path"
        );
    }
}
