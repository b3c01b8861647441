//! Git LFS, for users who have set it up.
//!
//! Git inside, and git that fills a worktree, gets the well-known filter of this name instead of what a
//! configuration says, which could name any program.

use crate::config::{Config, OF_THE_MACHINE, Setting};

const PROCESS: &str = "filter.lfs.process";

/// As `git lfs install` writes it, except `required`: what has no content here stays as it was
/// committed.
const FILTER: [(&str, &str); 3] = [
    (PROCESS, "git-lfs filter-process"),
    ("filter.lfs.smudge", "git-lfs smudge -- %f"),
    ("filter.lfs.clean", "git-lfs clean -- %f"),
];

/// Returns the filter, if the user's configuration or the machine's has it.
pub fn settings(of_the_user: &[Setting]) -> Vec<Setting> {
    let is_set_up = |settings: &[Setting]| settings.iter().any(|setting| setting.key == PROCESS);
    if !is_set_up(of_the_user) && !is_set_up(&Config::of([OF_THE_MACHINE]).settings) {
        return Vec::new();
    }
    let setting = |(key, value): &(&str, &str)| Setting {
        key: (*key).to_owned(),
        value: Some((*value).into()),
    };
    FILTER.iter().map(setting).collect()
}
