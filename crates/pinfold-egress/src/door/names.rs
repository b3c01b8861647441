//! Synthetic addresses: one for each name that was asked for and may be reached.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use pinfold_policy::network::HostName;

/// Addresses come from 198.18.0.0/15, which is for benchmarks within one machine or laboratory
/// (RFC 2544) and so means nothing to any program. The first 256 are left out.
const FIRST: u32 = u32::from_be_bytes([198, 18, 1, 0]);

/// Names that get an address in one session. Each costs about 200 bytes here.
const CAPACITY: usize = 32 * 1024;

/// Names and their addresses, which stay the same as long as the session lives: programs keep
/// them for longer than any time to live.
#[derive(Default)]
pub(super) struct Names {
    by_name: HashMap<HostName, Ipv4Addr>,
    by_index: Vec<HostName>,
}

impl Names {
    /// Returns the address of a name, a new one if need be; `None` when there are no more.
    pub(super) fn address_of(&mut self, name: &HostName) -> Option<Ipv4Addr> {
        if let Some(address) = self.by_name.get(name) {
            return Some(*address);
        }
        let index = self.by_index.len();
        if index >= CAPACITY {
            return None;
        }
        let address = Ipv4Addr::from_bits(FIRST + u32::try_from(index).ok()?);
        self.by_index.push(name.clone());
        self.by_name.insert(name.clone(), address);
        Some(address)
    }

    /// Returns the name that an address was given for.
    pub(super) fn name_of(&self, address: Ipv4Addr) -> Option<&HostName> {
        let index = address.to_bits().checked_sub(FIRST)?;
        self.by_index.get(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_address_and_the_number_of_names_is_bounded() {
        let mut names = Names::default();
        let name = |number: usize| format!("n{number}.example.com").parse().expect("a name");
        let first = names.address_of(&name(0)).expect("an address");
        assert_eq!(first, Ipv4Addr::new(198, 18, 1, 0));
        for number in 0..100_000 {
            let address = names.address_of(&name(number));
            assert_eq!(address.is_some(), number < CAPACITY, "{number}");
            if let Some(address) = address {
                assert!([18, 19].contains(&address.octets()[1]));
                assert_eq!(names.name_of(address), Some(&name(number)));
            }
        }
        assert_eq!(names.address_of(&name(0)), Some(first));
        assert_eq!(names.name_of(Ipv4Addr::new(198, 18, 0, 255)), None);
        assert_eq!(names.name_of(Ipv4Addr::BROADCAST), None);
    }
}
