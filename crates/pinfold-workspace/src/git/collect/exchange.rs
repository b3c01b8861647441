//! What is asked of git in a process of its own, and what it says, by files.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use pinfold_host::Refusal;
use pinfold_host::beneath::{open_directory, read_bounded};
use pinfold_host::launcher::Spot;

use super::{ASKED, Collect};

/// Bytes of what git lists for a repository; a reference takes about a hundred.
pub(super) const LONGEST_LIST: u64 = 256 << 20;

impl Collect<'_> {
    /// Runs one part in a process of its own that stands in the host's git directory.
    pub(super) fn helper(&self, part: &str) -> Result<(), Refusal> {
        let own = std::env::current_exe()?;
        let host = self.copied.host.open()?;
        let paths = [Path::new("."), &self.copied.private, &self.copied.base, &self.out];
        let mut argv: Vec<OsString> = vec![own.into(), "import-objects".into(), part.into()];
        argv.extend(paths.map(|path| path.into()));
        let spot = Spot { path: self.copied.host.path(), opened: &host };
        let output = self.git.launcher().run_in(spot, None, &argv, &[], None);
        let output = output.map_err(Refusal::about("reading the copy failed"))?;
        match output.code {
            Some(0) => Ok(()),
            _ => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
        }
    }

    pub(super) fn write(&self, name: &str, content: &str) -> Result<(), Refusal> {
        Ok(fs::write(self.out.join(ASKED).join(name), content)?)
    }

    pub(super) fn read(&self, part: &str, name: &str) -> Result<String, Refusal> {
        let out = open_directory(&self.out.join(part))?;
        let content = read_bounded(out, Path::new(name), LONGEST_LIST)
            .map_err(|unread| format!("{name} {unread}"))?;
        Ok(content.map_or_else(String::new, |it| String::from_utf8_lossy(&it.bytes).into_owned()))
    }
}
