//! Every connection to the outside is handed to a listener of the sandbox's own.
//!
//! A local default route makes every address one of this machine, so that packets to it come back
//! in on the loopback interface; there a rule of nftables gives connections to the listener
//! (TPROXY: `Documentation/networking/tproxy.rst`). No address is rewritten, so no connection is
//! tracked, and the accepted socket's own address is the one that was asked for. UDP without a
//! socket is answered by the kernel at once with "port unreachable". Nothing inside has the
//! capability to change any of it afterwards.

use std::net::{Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

use super::netlink::{Attributes, Messages};

/// One address family's part.
struct Family {
    /// `AF_` number for routes.
    address: u8,
    /// `NFPROTO_` number for rules.
    netfilter: u32,
    /// Offset of the destination in the network header, and what loopback is there.
    loopback: (u32, &'static [u8]),
    /// The listener's address.
    listener: &'static [u8],
}

const V4: Family = Family {
    address: libc::AF_INET as u8,
    netfilter: 2,
    // All of 127.0.0.0/8.
    loopback: (16, &[127]),
    listener: &Ipv4Addr::LOCALHOST.octets(),
};

const V6: Family = Family {
    address: libc::AF_INET6 as u8,
    netfilter: 10,
    loopback: (24, &Ipv6Addr::LOCALHOST.octets()),
    listener: &Ipv6Addr::LOCALHOST.octets(),
};

/// Hands connections over to listeners on `port` of each loopback address.
///
/// # Errors
/// Returns the error of the kernel; `ENOENT` and `EOPNOTSUPP` mean that it has no nftables or no TPROXY.
pub(super) fn hand_over(port: u16, with_v6: bool) -> Result<(), Errno> {
    let families: &[Family] = if with_v6 { &[V4, V6] } else { &[V4] };
    rules(families, port).exchange(libc::NETLINK_NETFILTER as u32)?;
    routes(families).exchange(libc::NETLINK_ROUTE as u32)
}

/// Does what `ip route add local default dev lo` does (rtnetlink(7)).
fn routes(families: &[Family]) -> Messages {
    const LOOPBACK_INDEX: u32 = 1;
    const TABLE: u8 = libc::RT_TABLE_LOCAL;
    let mut messages = Messages::default();
    for family in families {
        // struct rtmsg: family, two prefix lengths, service, table, protocol, scope, type, flags.
        let (protocol, scope, kind) = (libc::RTPROT_STATIC, libc::RT_SCOPE_HOST, libc::RTN_LOCAL);
        let mut header = vec![family.address, 0, 0, 0, TABLE, protocol, scope, kind];
        header.extend_from_slice(&[0; 4]);
        let out = Attributes::default().bytes(libc::RTA_OIF, &LOOPBACK_INDEX.to_ne_bytes());
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL | libc::NLM_F_ACK;
        messages.push(libc::RTM_NEWROUTE, flags, &header, &out);
    }
    messages
}

const TABLE: &str = "pinfold";
const CHAIN: &str = "outward";
const NFPROTO_INET: u8 = 1;
/// One register of sixteen bytes for each value in use (linux/netfilter/nf_tables.h).
const VALUE: u32 = 1;
const PORT: u32 = 2;

/// Returns one batch: a table, a chain before routing, and a rule for each family.
fn rules(families: &[Family], port: u16) -> Messages {
    const SUBSYSTEM: u16 = libc::NFNL_SUBSYS_NFTABLES as u16;
    let nft = |kind: i32| (SUBSYSTEM << 8) | kind as u16;
    // struct nfgenmsg: family, version, resource id (for a batch: the subsystem).
    let inet = [NFPROTO_INET, 0, 0, 0];
    let [high, low] = SUBSYSTEM.to_be_bytes();
    let batch = [0, 0, high, low];
    let none = Attributes::default();

    let mut messages = Messages::default();
    messages.push(libc::NFNL_MSG_BATCH_BEGIN as u16, 0, &batch, &none);
    let table = Attributes::default().text(nfta::TABLE_NAME, TABLE);
    messages.push(nft(libc::NFT_MSG_NEWTABLE), libc::NLM_F_CREATE, &inet, &table);
    messages.push(nft(libc::NFT_MSG_NEWCHAIN), libc::NLM_F_CREATE, &inet, &chain());
    let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND | libc::NLM_F_ACK;
    for family in families {
        messages.push(nft(libc::NFT_MSG_NEWRULE), flags, &inet, &rule(family, port));
    }
    messages.push(libc::NFNL_MSG_BATCH_END as u16, 0, &batch, &none);
    messages
}

/// Returns the attributes of `type filter hook prerouting priority mangle`.
fn chain() -> Attributes {
    const PRIORITY_MANGLE: i32 = -150;
    let hook = Attributes::default()
        .number(nfta::HOOK_HOOKNUM, libc::NF_INET_PRE_ROUTING as u32)
        .number(nfta::HOOK_PRIORITY, PRIORITY_MANGLE as u32);
    Attributes::default()
        .text(nfta::CHAIN_TABLE, TABLE)
        .text(nfta::CHAIN_NAME, CHAIN)
        .nested(nfta::CHAIN_HOOK, hook)
        .text(nfta::CHAIN_TYPE, "filter")
}

/// Returns the attributes of `meta nfproto FAMILY meta l4proto tcp DESTINATION != loopback tproxy to LISTENER:PORT`.
fn rule(family: &Family, port: u16) -> Attributes {
    let (offset, loopback) = family.loopback;
    let expressions = Attributes::default()
        .nested(ELEMENT, meta(libc::NFT_META_NFPROTO as u32))
        .nested(ELEMENT, compare(libc::NFT_CMP_EQ, &[family.netfilter as u8]))
        .nested(ELEMENT, meta(libc::NFT_META_L4PROTO as u32))
        .nested(ELEMENT, compare(libc::NFT_CMP_EQ, &[libc::IPPROTO_TCP as u8]))
        .nested(ELEMENT, payload(offset, loopback.len() as u32))
        .nested(ELEMENT, compare(libc::NFT_CMP_NEQ, loopback))
        .nested(ELEMENT, immediate(VALUE, family.listener))
        .nested(ELEMENT, immediate(PORT, &port.to_be_bytes()))
        .nested(ELEMENT, tproxy(family.netfilter));
    Attributes::default()
        .text(nfta::RULE_TABLE, TABLE)
        .text(nfta::RULE_CHAIN, CHAIN)
        .nested(nfta::RULE_EXPRESSIONS, expressions)
}

const ELEMENT: u16 = nfta::LIST_ELEM;

fn expression(name: &str, data: Attributes) -> Attributes {
    Attributes::default().text(nfta::EXPR_NAME, name).nested(nfta::EXPR_DATA, data)
}

fn value(bytes: &[u8]) -> Attributes {
    Attributes::default().bytes(nfta::DATA_VALUE, bytes)
}

fn meta(key: u32) -> Attributes {
    let data = Attributes::default().number(nfta::META_DREG, VALUE).number(nfta::META_KEY, key);
    expression("meta", data)
}

fn payload(offset: u32, length: u32) -> Attributes {
    let data = Attributes::default()
        .number(nfta::PAYLOAD_DREG, VALUE)
        .number(nfta::PAYLOAD_BASE, libc::NFT_PAYLOAD_NETWORK_HEADER as u32)
        .number(nfta::PAYLOAD_OFFSET, offset)
        .number(nfta::PAYLOAD_LEN, length);
    expression("payload", data)
}

fn compare(operation: i32, with: &[u8]) -> Attributes {
    let data = Attributes::default()
        .number(nfta::CMP_SREG, VALUE)
        .number(nfta::CMP_OP, operation as u32)
        .nested(nfta::CMP_DATA, value(with));
    expression("cmp", data)
}

fn immediate(register: u32, bytes: &[u8]) -> Attributes {
    let data = Attributes::default()
        .number(nfta::IMMEDIATE_DREG, register)
        .nested(nfta::IMMEDIATE_DATA, value(bytes));
    expression("immediate", data)
}

fn tproxy(family: u32) -> Attributes {
    let data = Attributes::default()
        .number(nfta::TPROXY_FAMILY, family)
        .number(nfta::TPROXY_REG_ADDR, VALUE)
        .number(nfta::TPROXY_REG_PORT, PORT);
    expression("tproxy", data)
}

/// Attributes by their numbers in linux/netfilter/nf_tables.h, which libc does not name; the last
/// group is from Linux 4.19.
mod nfta {
    pub(super) const TABLE_NAME: u16 = 1;
    pub(super) const CHAIN_TABLE: u16 = 1;
    pub(super) const CHAIN_NAME: u16 = 3;
    pub(super) const CHAIN_HOOK: u16 = 4;
    pub(super) const CHAIN_TYPE: u16 = 7;
    pub(super) const HOOK_HOOKNUM: u16 = 1;
    pub(super) const HOOK_PRIORITY: u16 = 2;
    pub(super) const RULE_TABLE: u16 = 1;
    pub(super) const RULE_CHAIN: u16 = 2;
    pub(super) const RULE_EXPRESSIONS: u16 = 4;
    pub(super) const LIST_ELEM: u16 = 1;
    pub(super) const EXPR_NAME: u16 = 1;
    pub(super) const EXPR_DATA: u16 = 2;
    pub(super) const DATA_VALUE: u16 = 1;
    pub(super) const META_DREG: u16 = 1;
    pub(super) const META_KEY: u16 = 2;
    pub(super) const PAYLOAD_DREG: u16 = 1;
    pub(super) const PAYLOAD_BASE: u16 = 2;
    pub(super) const PAYLOAD_OFFSET: u16 = 3;
    pub(super) const PAYLOAD_LEN: u16 = 4;
    pub(super) const CMP_SREG: u16 = 1;
    pub(super) const CMP_OP: u16 = 2;
    pub(super) const CMP_DATA: u16 = 3;
    pub(super) const IMMEDIATE_DREG: u16 = 1;
    pub(super) const IMMEDIATE_DATA: u16 = 2;
    pub(super) const TPROXY_FAMILY: u16 = 1;
    pub(super) const TPROXY_REG_ADDR: u16 = 2;
    pub(super) const TPROXY_REG_PORT: u16 = 3;
}
