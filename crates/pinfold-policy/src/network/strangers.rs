//! Hosts that serve content of strangers under many names.

use std::sync::LazyLock;

use super::host::Host;
use super::pattern::HostPattern;

/// Lines of patterns.
const LIST: &str = include_str!("../../data/shared-hosts.txt");

/// The patterns of the list, parsed once: there may be a hundred thousand rules to compare them with.
static PATTERNS: LazyLock<Vec<HostPattern>> = LazyLock::new(|| {
    let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| line.parse().ok()).collect()
});

/// Returns whether a host is on the list.
pub(super) fn is_listed(host: &Host) -> bool {
    PATTERNS.iter().any(|pattern| pattern.matches(host))
}

/// Returns whether a pattern means a host of the list.
pub(super) fn may_mean_one(hosts: &HostPattern) -> bool {
    PATTERNS.iter().any(|pattern| pattern.covers(hosts) || hosts.covers(pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_is_a_pattern() {
        let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        assert_eq!(PATTERNS.len(), lines.count());
    }

    #[test]
    fn patterns_of_rules_that_meet_the_list_are_found() {
        let may = |text: &str| may_mean_one(&text.parse().unwrap());
        for text in ["raw.githubusercontent.com", "*.githubusercontent.com", "*.net", "unpkg.com"] {
            assert!(may(text), "{text}");
        }
        for text in ["github.com", "*.example.com", "githubusercontent.com", "10.0.0.1"] {
            assert!(!may(text), "{text}");
        }
    }
}
