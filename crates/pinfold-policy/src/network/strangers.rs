//! Hosts that serve content of strangers under many names.

use super::host::Host;
use super::pattern::HostPattern;

/// Lines of patterns.
const LIST: &str = include_str!("../../data/shared-hosts.txt");

fn patterns() -> impl Iterator<Item = HostPattern> {
    let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| line.parse().ok())
}

/// Returns whether a host is on the list.
pub(super) fn is_listed(host: &Host) -> bool {
    patterns().any(|pattern| pattern.matches(host))
}

/// Returns whether a pattern means a host of the list.
pub(super) fn may_mean_one(hosts: &HostPattern) -> bool {
    patterns().any(|pattern| pattern.covers(hosts) || hosts.covers(&pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_is_a_pattern() {
        let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        assert_eq!(patterns().count(), lines.count());
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
