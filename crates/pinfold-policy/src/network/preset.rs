//! Rules for the hosts of a package registry or forge, by one word.

use std::fmt;
use std::str::FromStr;

use super::rule::NetworkRule;

/// Lines of a preset's name and one of its rules.
const PRESETS: &str = include_str!("../../data/presets.txt");

/// The name of a list of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset(&'static str);

/// Why a text is no [`Preset`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no preset \"{}\"; there are: {}; for a single host use --allow-host",
    .0.escape_debug(),
    Preset::all().map(|preset| preset.0).collect::<Vec<_>>().join(", ")
)]
pub struct UnknownPreset(String);

impl Preset {
    /// Returns every preset once, in the order of the list.
    pub fn all() -> impl Iterator<Item = Self> {
        let mut last = None;
        let is_new = move |name: &&'static str| last.replace(*name) != Some(*name);
        lines().map(|(name, _)| name).filter(is_new).map(Self)
    }

    /// Returns the preset whose name a rule has for the name of a host.
    #[must_use]
    pub fn meant_by(rule: &NetworkRule) -> Option<Self> {
        rule.to_string().parse().ok()
    }

    /// Returns its rules.
    #[must_use]
    pub fn rules(self) -> Vec<NetworkRule> {
        let own = lines().filter(|(name, _)| *name == self.0);
        own.filter_map(|(_, rule)| rule.parse().ok()).collect()
    }
}

fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = PRESETS.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?))
    })
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(text: &str) -> Result<Self, UnknownPreset> {
        Self::all().find(|preset| preset.0 == text).ok_or_else(|| UnknownPreset(text.to_owned()))
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_rule_of_a_preset() {
        let count = PRESETS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let rules: usize = Preset::all().map(|preset| preset.rules().len()).sum();
        assert_eq!(rules, count.count());
        let names: Vec<String> = Preset::all().map(|preset| preset.to_string()).collect();
        assert_eq!(names, ["npm", "pypi", "crates", "go", "debian", "github"]);
    }

    #[test]
    fn only_a_rule_that_is_nothing_but_a_name_may_mean_a_preset() {
        let meant = |rule: &str| Preset::meant_by(&rule.parse().unwrap()).map(|it| it.to_string());
        assert_eq!(meant("npm").as_deref(), Some("npm"));
        assert_eq!([meant("npm:443"), meant("npm.example.com"), meant("db")], [None, None, None]);
    }

    #[test]
    fn an_unknown_preset_is_refused_with_those_that_there_are() {
        let error = "maven".parse::<Preset>().unwrap_err().to_string();
        assert!(error.contains("npm, pypi, crates, go, debian, github"), "{error}");
    }
}
