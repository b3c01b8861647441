//! What an address is for.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is for, by the special-purpose registries of IANA (RFC 6890).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    /// A host of the internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network (RFC 1918), carrier-grade NAT (RFC 6598), unique local (RFC 4193).
    Private,
    /// This link (RFC 3927, RFC 4291); the metadata services of cloud machines live there.
    LinkLocal,
    /// Many hosts at once.
    Multicast,
    /// No host at all: unspecified, reserved or for benchmarks.
    Reserved,
}

impl AddressClass {
    /// Returns what an address is for. An IPv4 address that an IPv6 one carries (mapped, compatible,
    /// NAT64, 6to4, Teredo) decides, since a gateway on the way would deliver there.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => match carried(address) {
                Some(inner) => of_v4(inner),
                None => of_v6(address),
            },
        }
    }

    /// Returns whether a name may lead there without `allowedInternalHosts`.
    #[must_use]
    pub fn is_public(self) -> bool {
        self == Self::Public
    }
}

fn of_v4(address: Ipv4Addr) -> AddressClass {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => AddressClass::Loopback,
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => AddressClass::Private,
        (169, 254, _) => AddressClass::LinkLocal,
        (224..=239, ..) => AddressClass::Multicast,
        // "This network", IETF protocol assignments, 6to4 relays (RFC 7526), benchmarks (RFC 2544),
        // and the former class E with broadcast. The ranges for documentation (RFC 5737) are not
        // among them: networks that answer for public names with a gateway of their own use them,
        // and nothing else does.
        (0 | 240..=255, ..) | (192, 0, 0) | (192, 88, 99) | (198, 18..=19, _) => {
            AddressClass::Reserved
        }
        // Azure's metadata and DHCP service, a public address that is only reached from inside.
        (168, 63, 129) if address.octets()[3] == 16 => AddressClass::LinkLocal,
        _ => AddressClass::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> AddressClass {
    let segments = address.segments();
    match segments[0] {
        _ if address.is_loopback() => AddressClass::Loopback,
        0xfc00..=0xfdff => AddressClass::Private,
        0xfe80..=0xfebf => AddressClass::LinkLocal,
        // Site-local, deprecated by RFC 3879, still routed by some.
        0xfec0..=0xfeff => AddressClass::Private,
        0xff00..=0xffff => AddressClass::Multicast,
        // Benchmarks (RFC 5180), ORCHID (RFC 7343); documentation (RFC 3849, RFC 9637) as in IPv4.
        0x2001 if segments[1] < 0x0200 => AddressClass::Reserved,
        // Global unicast as it is assigned today (RFC 4291, 2.4).
        0x2000..=0x3fff => AddressClass::Public,
        _ => AddressClass::Reserved,
    }
}

/// Returns the IPv4 address that an IPv6 address stands for.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let join = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match (a, b, c, d, e, f) {
        // Loopback and unspecified are not IPv4 addresses.
        (0, 0, 0, 0, 0, 0) if g == 0 && h <= 1 => None,
        // Mapped (RFC 4291, 2.5.5.2), compatible (2.5.5.1), translated (RFC 2765).
        (0, 0, 0, 0, 0, 0xffff | 0) | (0, 0, 0, 0, 0xffff, 0) => Some(join(g, h)),
        // NAT64 by its well-known prefix (RFC 6052) and its local one (RFC 8215).
        (0x64, 0xff9b, 0, 0, 0, 0) | (0x64, 0xff9b, 1, ..) => Some(join(g, h)),
        // 6to4 (RFC 3056).
        (0x2002, ..) => Some(join(b, c)),
        // Teredo (RFC 4380): the client's address, inverted.
        (0x2001, 0, ..) => Some(join(!g, !h)),
        _ => None,
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local or metadata address",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
        })
    }
}
