//! Looking at a session's changes and taking them over.

use super::super::sample::{Contender, print};
use super::super::{Effort, Outcome};
use super::site::Site;

/// Measures `diff` and `apply` of changed files: half of them all.
pub(super) fn run(site: &Site, effort: Effort) -> Outcome {
    let count = effort.files / 2;
    println!(" {count} changed files");
    let change = format!("find src -type f | sort | head -n {count} | xargs sed -i s/line/new/");
    site.shell("cp -a src ../before; cp -a src ../after; cp -a src ../target; mkdir ../only")?;
    site.shell(&format!(
        "cd ../after; mkdir src; mv d* src; {change}; mv src/* .; rmdir src; \
         find . -type f | sort | head -n {count} | xargs cp -a --parents -t ../only"
    ))?;
    let shell = |script| site.command("/bin/sh", &["-ec", script]);
    let mut contenders = [
        ("git diff --no-index", shell("git diff --no-index ../before ../after || true")),
        ("pinfold diff", site.pinfold(&["diff"])),
        ("cp -a", shell("cp -a ../only/. ../target")),
        ("cp -a and sync -f", shell("cp -a ../only/. ../target; sync -f ../target")),
        ("pinfold apply", site.pinfold(&["apply"])),
    ]
    .map(|(name, command)| Contender::new(name, command));
    for round in effort.first_round()..=effort.rounds {
        let words = ["--", "/bin/sh", "-ec", &change];
        Contender::new("the session", site.session("overlay", &words)).take(false)?;
        for contender in &mut contenders {
            site.shell("sync -f .")?;
            contender.take(round > 0)?;
        }
        site.shell("git checkout -q .")?;
    }
    print(&contenders[..2], "git diff --no-index");
    print(&contenders[2..], "cp -a");
    Ok(())
}
