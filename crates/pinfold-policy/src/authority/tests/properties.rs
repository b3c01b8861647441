//! What holds for every policy, every tree and every path.

use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use proptest::prelude::*;
use proptest::sample::select;

use super::support::*;
use crate::access::Access;
use crate::authority::{Authority, Decision, Effect, Grant, Place, Restriction};
use crate::path::{HostPath, InsidePath};

/// Few names, so that paths collide; `a` and `ab` share a string prefix, one is not UTF-8.
fn name() -> impl Strategy<Value = &'static [u8]> {
    select(vec![&b"a"[..], b"ab", b"b", b"c", b"\xff"])
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(name(), 1..4)
        .prop_map(|names| names.iter().flat_map(|n| [b"/", *n].concat()).collect())
}

fn host_path() -> impl Strategy<Value = HostPath> {
    bytes().prop_map(|bytes| HostPath::from_bytes(&bytes).unwrap())
}

/// Returns a path as an attacker would write it: dots, repeated separators, relative steps.
fn wild_path() -> impl Strategy<Value = PathBuf> {
    let part = prop_oneof![5 => name(), 1 => Just(&b".."[..]), 1 => Just(&b"."[..])];
    prop::collection::vec(part, 0..6).prop_map(|parts| {
        let text: Vec<u8> = parts.iter().flat_map(|part| [b"/", *part].concat()).collect();
        let text = if text.is_empty() { b"/".to_vec() } else { text };
        PathBuf::from(std::ffi::OsString::from_vec(text))
    })
}

fn link_target() -> impl Strategy<Value = PathBuf> {
    (any::<bool>(), wild_path()).prop_map(|(absolute, path)| {
        if absolute {
            return path;
        }
        let bytes = path.as_os_str().as_bytes();
        PathBuf::from(std::ffi::OsStr::from_bytes(bytes.strip_prefix(b"/").unwrap_or(bytes)))
    })
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        Just(Node::File { links: 1, size: 1 }),
        Just(Node::Directory),
        link_target().prop_map(Node::Link),
    ]
}

fn tree() -> impl Strategy<Value = MemoryTree> {
    prop::collection::vec((host_path(), node()), 0..20).prop_map(|nodes| {
        nodes.into_iter().fold(MemoryTree::default(), |tree, (path, node)| tree.with(path, node))
    })
}

fn any_grant() -> impl Strategy<Value = Grant> {
    (bytes(), host_path(), any::<u8>()).prop_map(|(inside, host, bits)| {
        let mut made = grant("/", "/", Access::from_bits_truncate(bits | 1));
        made.root.inside = InsidePath::from_bytes(&inside).unwrap();
        made.root.host = host;
        made
    })
}

fn any_restriction() -> impl Strategy<Value = Restriction> {
    let effect = select(vec![Effect::Hide, Effect::ReadOnly, Effect::Private]);
    (host_path(), effect).prop_map(|(host, effect)| {
        let mut made = restriction("/", effect);
        made.host = host;
        made
    })
}

prop_compose! {
    /// A policy without contradictions: what the builder refuses is tried again.
    fn authority()(
        grants in prop::collection::vec(any_grant(), 1..5),
        restrictions in prop::collection::vec(any_restriction(), 0..4),
    ) -> Option<Authority> {
        // Each restriction that fits is kept, so that most attempts give a policy with some.
        let mut kept = Vec::new();
        for restriction in restrictions {
            kept.push(restriction);
            if build(grants.clone(), kept.clone()).is_err() {
                kept.pop();
            }
        }
        build(grants, kept).ok()
    }
}

fn sound() -> impl Strategy<Value = Authority> {
    authority().prop_filter_map("contradiction", |authority| authority)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn resolution_never_yields_a_host_path_outside_grants(
        authority in sound(), tree in tree(), path in wild_path(), name in any::<bool>(),
    ) {
        let walk = if name { Authority::resolve_name } else { Authority::resolve };
        let resolved = walk(&authority, &tree, path).unwrap();
        if let Place::Granted(located) = resolved.place() {
            let governing = authority.governing(&located.inside).unwrap();
            prop_assert!(located.host.starts_with(&governing.root.host));
            prop_assert_eq!(governing.host_of(&located.inside), Some(located.host.clone()));
        }
    }

    #[test]
    fn the_longest_prefix_governs(authority in sound(), path in bytes()) {
        let inside = InsidePath::from_bytes(&path).unwrap();
        let expected = inside
            .ancestors()
            .find_map(|at| authority.grants().find(|grant| grant.root.inside == at));
        prop_assert_eq!(authority.governing(&inside), expected);
    }

    #[test]
    fn deny_beats_allow(authority in sound(), tree in tree(), path in wild_path()) {
        for access in Access::all().iter() {
            let (resolved, decision) = authority.decide_path(&tree, access, &path).unwrap();
            let Some(host) = resolved.host() else { continue };
            let covering: Vec<_> =
                authority.restrictions().filter(|r| host.starts_with(&r.host)).collect();
            if covering.iter().any(|r| r.effect == Effect::Hide) {
                prop_assert!(!decision.is_allowed());
            }
            let innermost = covering.iter().max_by_key(|r| r.host.depth());
            if access.intersects(Access::CHANGING)
                && innermost.is_some_and(|r| r.effect == Effect::ReadOnly)
            {
                prop_assert!(!decision.is_allowed());
            }
        }
    }

    #[test]
    fn only_what_is_granted_is_allowed(authority in sound(), tree in tree(), path in wild_path()) {
        for access in Access::all().iter() {
            match authority.decide_path(&tree, access, &path).unwrap() {
                (_, Decision::Allow(by)) => match by.grant {
                    Some(grant) => prop_assert!(grant.access.contains(access)),
                    None => prop_assert!(Access::SYNTHETIC.contains(access)),
                },
                (_, Decision::Deny(_) | Decision::Ask { .. }) => {}
            }
        }
    }

    #[test]
    fn string_prefixes_are_not_path_prefixes(tree in tree(), suffix in "[a-z]{1,3}") {
        let authority = build([grant("/w", "/a", Access::FULL)], []).unwrap();
        let outside = format!("/w{suffix}/b");
        prop_assert!(!decide(&authority, &tree, Access::READ, &outside).is_allowed());
    }

    #[test]
    fn an_explanation_agrees_with_the_decision(
        authority in sound(), tree in tree(), path in wild_path(), bits in 1u8..,
    ) {
        let access = Access::from_bits_truncate(bits);
        let (_, decision) = authority.decide_path(&tree, access, &path).unwrap();
        let explained = authority.explain(&tree, access, &path).unwrap();
        prop_assert_eq!(decision.is_allowed(), explained.reason.is_none());
    }
}
