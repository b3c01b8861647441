//! The names of the machine that pinfold runs on, and the services on its loopback addresses.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use super::host::{Host, HostName};
use super::pattern::HostPattern;
use super::policy::NetworkPolicy;
use super::rule::{NetworkRule, Ports};
use super::{Endpoint, InvalidHost};
use crate::origin::Valued;

/// What names the machine inside a sandbox. Docker and Podman have the second one, too.
const NAMES: [&str; 2] = ["host.pinfold", "host.docker.internal"];
const LOCALHOST: &str = "localhost";
/// The ports of [`Ports::Web`].
const WEB: [u16; 2] = [80, 443];

impl HostName {
    /// Returns whether the name means the machine that pinfold runs on.
    #[must_use]
    pub fn is_this_machine(&self) -> bool {
        NAMES.contains(&self.as_str())
    }
}

impl Host {
    /// Returns the machine's loopback interface, by its usual name.
    ///
    /// # Errors
    /// Returns no error: the name is a constant.
    pub fn localhost() -> Result<Self, InvalidHost> {
        LOCALHOST.parse()
    }

    /// Returns whether services on the machine's loopback interface are meant.
    #[must_use]
    pub fn is_this_machine(&self) -> bool {
        match self {
            Self::Name(name) => name.as_str() == LOCALHOST || name.is_this_machine(),
            Self::Address(address) => address.is_loopback(),
        }
    }
}

impl NetworkPolicy {
    /// Lets what one name of this machine may reach be reached by all of its names.
    #[must_use]
    pub fn with_names_of_this_machine(mut self) -> Self {
        add_names(&mut self.allow);
        add_names(&mut self.internal);
        self
    }

    /// Returns the ports of this machine's loopback interface that rules name, for listeners in the
    /// sandbox.
    #[must_use]
    pub fn loopback_ports(&self) -> BTreeSet<u16> {
        let Ok(host) = Host::localhost() else { return BTreeSet::new() };
        let own = self.allow.iter().filter(|rule| is_localhost(&rule.value));
        let ports = own.flat_map(|rule| match rule.value.ports {
            Ports::Web => WEB.to_vec(),
            Ports::One(port) => vec![port],
            // Nobody can listen everywhere.
            Ports::All => Vec::new(),
        });
        let is_permitted = |port: &u16| {
            let asked = Endpoint::new(host.clone(), *port);
            self.check_address(&asked, IpAddr::V4(Ipv4Addr::LOCALHOST)).is_ok()
        };
        ports.filter(is_permitted).collect()
    }

    /// Returns a rule about this machine's loopback interface that opens nothing, since no internal rule names it.
    #[must_use]
    pub fn closed_loopback_rule(&self) -> Option<&Valued<NetworkRule>> {
        let opens = |rule: &NetworkRule| self.internal.iter().any(|its| its.value.covers(rule));
        self.allow.iter().find(|rule| is_of_this_machine(&rule.value) && !opens(&rule.value))
    }
}

fn is_of_this_machine(rule: &NetworkRule) -> bool {
    matches!(&rule.hosts, HostPattern::Exactly(host) if host.is_this_machine())
}

fn is_localhost(rule: &NetworkRule) -> bool {
    matches!(&rule.hosts, HostPattern::Exactly(Host::Name(name)) if name.as_str() == LOCALHOST)
}

/// Repeats each rule about this machine for its other names.
fn add_names(rules: &mut Vec<Valued<NetworkRule>>) {
    let is_own = |rule: &&Valued<NetworkRule>| is_of_this_machine(&rule.value);
    let own: Vec<Valued<NetworkRule>> = rules.iter().filter(is_own).cloned().collect();
    for rule in own {
        for name in NAMES.into_iter().chain([LOCALHOST]) {
            let Ok(name) = name.parse() else { continue };
            let hosts = HostPattern::Exactly(Host::Name(name));
            let value = NetworkRule { hosts, ..rule.value.clone() };
            if !rules.iter().any(|known| known.value == value) {
                rules.push(Valued::new(value, rule.origin.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::Origin;

    fn policy(allow: &[&str], internal: &[&str]) -> NetworkPolicy {
        let rules = |texts: &[&str]| {
            let rule = |text: &&str| Valued::new(text.parse().unwrap(), Origin::Default);
            texts.iter().map(rule).collect()
        };
        let policy = NetworkPolicy {
            allow: rules(allow),
            internal: rules(internal),
            ..NetworkPolicy::default()
        };
        policy.with_names_of_this_machine()
    }

    fn may_reach(policy: &NetworkPolicy, text: &str) -> bool {
        let asked = Endpoint::parse(text, None).unwrap();
        policy.decide(&asked).is_ok()
            && policy.check_address(&asked, Ipv4Addr::LOCALHOST.into()).is_ok()
    }

    #[test]
    fn a_service_of_this_machine_is_reached_by_each_of_its_names() {
        for own in ["localhost:5432", "127.0.0.1:5432", "[::1]:5432", "host.docker.internal:5432"] {
            let policy = policy(&[own], &[own]);
            for name in ["localhost", "host.pinfold", "host.docker.internal"] {
                assert!(may_reach(&policy, &format!("{name}:5432")), "{own} as {name}");
                assert!(!may_reach(&policy, &format!("{name}:5433")), "{own} as {name}");
            }
            assert_eq!(policy.loopback_ports(), BTreeSet::from([5432]), "{own}");
        }
    }

    #[test]
    fn other_hosts_are_not_this_machine() {
        let policy = policy(&["db.corp:5432", "*.localhost:1", "*"], &["db.corp:5432", "*"]);
        assert!(!may_reach(&policy, "localhost:5432"));
        assert_eq!(policy.loopback_ports(), BTreeSet::new());
    }

    #[test]
    fn a_rule_that_names_no_internal_host_opens_no_port_of_this_machine() {
        let policy = policy(&["localhost:5432"], &[]);
        assert!(!may_reach(&policy, "localhost:5432"));
        assert_eq!(policy.loopback_ports(), BTreeSet::new());
    }

    #[test]
    fn a_refusal_of_this_machine_names_the_rule_for_it() {
        for refused in [policy(&[], &[]), policy(&["localhost:1"], &["localhost:1"])] {
            let asked = Endpoint::parse("host.pinfold:5432", None).unwrap();
            let hint = refused.decide(&asked).unwrap_err().hint().unwrap().to_string();
            assert_eq!(hint, "--allow-internal-host host.pinfold:5432");
        }
    }

    #[test]
    fn a_refusal_of_a_name_that_was_looked_up_leaves_the_port_open() {
        let asked = Endpoint::parse("host.pinfold", Some(443)).unwrap();
        let hint = policy(&[], &[]).decide(&asked).unwrap_err().hint().unwrap().to_string();
        assert_eq!(hint, "--allow-internal-host host.pinfold:PORT");
    }

    #[test]
    fn without_a_port_the_ports_of_the_web_are_meant() {
        let policy = policy(&["localhost"], &["localhost"]);
        assert_eq!(policy.loopback_ports(), BTreeSet::from(WEB));
    }

    #[test]
    fn rule_about_this_machine_without_an_internal_one_is_found() {
        let closed = |allow: &[&str], internal: &[&str]| {
            policy(allow, internal).closed_loopback_rule().map(|rule| rule.value.to_string())
        };
        for rule in ["localhost:5432", "127.0.0.1:5432", "host.pinfold:5432"] {
            assert_eq!(closed(&["a.example", rule], &[]), Some(rule.to_owned()));
            assert_eq!(closed(&[rule], &[rule]), None);
        }
        assert_eq!(closed(&["localhost:1"], &["localhost:2"]), Some("localhost:1".to_owned()));
        assert_eq!(closed(&["a.example", "*"], &[]), None);
    }
}
