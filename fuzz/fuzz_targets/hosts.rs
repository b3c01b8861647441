//! Hosts, authorities and rules, as programs and people write them.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use pinfold_policy::network::{Endpoint, Host, HostName, HostPattern, NetworkRule};

fuzz_target!(|text: &str| {
    if let Ok(name) = text.parse::<HostName>() {
        assert_eq!(name.as_str().parse().as_ref(), Ok(&name));
        assert!(name.as_str().parse::<IpAddr>().is_err(), "{name} is an address");
        let last = name.as_str().rsplit('.').next().unwrap_or_default();
        let hexadecimal = last.strip_prefix("0x").unwrap_or("x");
        let is_number = |digits: &str, radix| digits.chars().all(|digit| digit.is_digit(radix));
        assert!(!is_number(last, 10) && !is_number(hexadecimal, 16), "{name} may be one");
    }
    if let Ok(asked) = Endpoint::parse(text, Some(443)) {
        assert_eq!(Endpoint::parse(&asked.to_string(), None).as_ref(), Ok(&asked));
        assert!(!text.contains(['@', '/', '?', '#', '%', '\\', ' ']), "{text:?} is {asked}");
    }
    if let Ok(rule) = text.parse::<NetworkRule>() {
        assert_eq!(rule.to_string().parse().as_ref(), Ok(&rule));
        if let HostPattern::Below(parent) = &rule.hosts {
            assert!(!rule.matches(&Host::Name(parent.clone()), 443));
        }
    }
});
