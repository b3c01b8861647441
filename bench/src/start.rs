//! From start to exit of `true`.

use std::path::Path;

use super::sample::{Contender, in_turns, print};
use super::work::make_tree;
use super::{Effort, Outcome, command, peers};

/// Files and references of a small repository.
pub(super) const FILES: usize = 200;
const REFERENCES: usize = 500;

pub(super) fn run(pinfold: &Path, effort: Effort) -> Outcome {
    println!("\nstart to exit of `true` ({} starts each, in turns)", effort.starts);
    let workspace = repository(FILES)?;
    let workspace = workspace.path();
    let mut contenders = vec![Contender::new("plain", command("/usr/bin/true"))];
    let mut own = command(pinfold);
    own.args(["run", "--", "/usr/bin/true"]).current_dir(workspace);
    contenders.push(Contender::new("pinfold", own));
    if peers::exists("bwrap") {
        contenders.push(Contender::new("bwrap", peers::bwrap(workspace, &["/usr/bin/true"])));
        let few = peers::bwrap_of_dotfiles(workspace, &["/usr/bin/true"]);
        contenders.push(Contender::new("bwrap, eight binds", few));
    } else {
        println!("  bwrap is not installed: skipped");
    }
    in_turns(&mut contenders, effort.starts)?;
    print(&contenders, if peers::exists("bwrap") { "bwrap" } else { "plain" });
    srt(pinfold, workspace, effort)?;
    timings(pinfold, workspace)?;
    growth(pinfold, workspace, effort)
}

/// Measures the same in a repository of many files, once what they are is known from an earlier start.
fn growth(pinfold: &Path, small: &Path, effort: Effort) -> Outcome {
    let files = effort.files * 5;
    let large = repository(files)?;
    let start = |workspace: &Path| {
        let mut own = command(pinfold);
        own.args(["run", "--", "/usr/bin/true"]).current_dir(workspace);
        own
    };
    // What has changed a moment ago is not remembered.
    std::thread::sleep(std::time::Duration::from_secs(4));
    start(large.path()).status()?;
    let name = format!("{files} files");
    let mut contenders =
        [Contender::new("small", start(small)), Contender::new(&name, start(large.path()))];
    in_turns(&mut contenders, (effort.starts / 4).max(5))?;
    println!("  against itself in a repository of {FILES} files");
    print(&contenders, "small");
    Ok(())
}

/// Makes a repository with so many tracked files, and with references.
pub(super) fn repository(files: usize) -> Result<tempfile::TempDir, Box<dyn std::error::Error>> {
    let workspace = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
    make_tree(workspace.path(), files)?;
    let script = format!(
        "for n in $(seq {REFERENCES}); do echo create refs/heads/b$n HEAD; done | \
         git update-ref --stdin"
    );
    command("/bin/sh").args(["-ec", &script]).current_dir(workspace.path()).status()?;
    Ok(workspace)
}

/// Anthropic's sandbox-runtime takes some hundred milliseconds: fewer turns, pinfold in each.
fn srt(pinfold: &Path, workspace: &Path, effort: Effort) -> Outcome {
    let srt = match peers::srt()? {
        Ok(srt) => srt,
        Err(reason) => {
            println!("  srt: {reason}: skipped");
            return Ok(());
        }
    };
    let mut peer = command(srt);
    peer.arg("/usr/bin/true").current_dir(workspace);
    let mut own = command(pinfold);
    own.args(["run", "--", "/usr/bin/true"]).current_dir(workspace);
    let mut contenders = [Contender::new("srt", peer), Contender::new("pinfold", own)];
    in_turns(&mut contenders, (effort.starts / 10).max(3))?;
    println!("  against srt, which starts proxies for the network with every command");
    print(&contenders, "srt");
    Ok(())
}

/// Prints where the time of one start goes.
fn timings(pinfold: &Path, workspace: &Path) -> Outcome {
    let mut own = command(pinfold);
    own.args(["run", "--timings", "--", "/usr/bin/true"]).current_dir(workspace);
    let output = own.output()?;
    println!("  one start, step by step:\n{}", String::from_utf8_lossy(&output.stderr).trim_end());
    Ok(())
}

/// Workspaces of benchmarks: not /tmp, which is private inside.
pub(super) fn base() -> std::path::PathBuf {
    std::env::var_os("HOME").map_or_else(std::env::temp_dir, Into::into)
}
