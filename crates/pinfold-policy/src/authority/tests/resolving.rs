use super::support::*;
use crate::access::Access;
use crate::authority::{Authority, Block, HostTree, Place, Symlinks, Tree};
use crate::path::PathError;

fn tree() -> MemoryTree {
    MemoryTree::default()
        .directory("/usr/bin")
        .file("/usr/bin/sh")
        .file("/home/me/w/README")
        .file("/home/me/w/.env")
        .file("/home/me/secret")
        .directory("/home/me/w/sub/.git")
        .link("/home/me/w/sh", "/usr/bin/sh")
        .link("/home/me/w/up", "../secret")
        .link("/home/me/w/out", "/home/me/secret")
        .link("/home/me/w/loop", "loop")
        .link("/home/me/w/dot", "sub/../README")
        .link("/home/me/w/new", "made-later")
        .link("/home/me/w/env", ".env")
        .link("/home/me/w/slash", "README/")
}

fn place(authority: &Authority, path: &str) -> Place {
    authority.resolve(&tree(), path).unwrap().place().clone()
}

fn ends_at(path: &str) -> Option<String> {
    let resolved = workspace().resolve(&tree(), path).unwrap();
    resolved.host().map(ToString::to_string)
}

fn block(path: &str) -> Block {
    match place(&workspace(), path) {
        Place::Blocked { why, .. } => why,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn a_sandbox_prefix_becomes_its_host() {
    assert_eq!(ends_at("/w/README").unwrap(), "/home/me/w/README");
    assert_eq!(ends_at("/w/./sub/../README").unwrap(), "/home/me/w/README");
    assert_eq!(ends_at("/w/sub/missing").unwrap(), "/home/me/w/sub/missing");
    assert_eq!(ends_at("/home/me/w/README"), None, "the host's own name means nothing inside");
    assert_eq!(ends_at("/wx"), None);
}

#[test]
fn links_are_read_in_the_insides_name_space() {
    assert_eq!(ends_at("/w/sh").unwrap(), "/usr/bin/sh");
    assert_eq!(ends_at("/w/dot").unwrap(), "/home/me/w/README");
    assert_eq!(ends_at("/w/new").unwrap(), "/home/me/w/made-later");
    assert_eq!(ends_at("/w/up"), None, "inside, .. of /w is /");
    assert_eq!(ends_at("/w/out"), None);
    assert!(matches!(place(&workspace(), "/w/env"), Place::Hidden { .. }));
}

#[test]
fn a_name_is_not_followed() {
    let authority = workspace();
    let resolved = authority.resolve_name(&tree(), "/w/sh").unwrap();
    assert_eq!(resolved.host().unwrap(), &host("/home/me/w/sh"));
    let resolved = authority.resolve_name(&tree(), "/w/dot/").unwrap();
    let Place::Blocked { why, .. } = resolved.place() else { panic!("{resolved:?}") };
    assert_eq!(*why, Block::NotADirectory, "a final separator demands a directory");
}

#[test]
fn unwalkable_directory_says_why() {
    assert_eq!(block("/w/loop"), Block::Loop);
    assert_eq!(block("/w/README/x"), Block::NotADirectory);
    assert_eq!(block("/w/README/"), Block::NotADirectory);
    assert_eq!(block("/w/slash"), Block::NotADirectory);
    assert_eq!(block("/w/README/.."), Block::NotADirectory);
    assert_eq!(block("/w/none/x"), Block::Missing);
    assert_eq!(block("/w/none/../README"), Block::Missing);
}

#[test]
fn parent_of_a_grant_is_a_synthetic_directory() {
    assert_eq!(place(&workspace(), "/"), Place::Synthetic(inside("/")));
    assert_eq!(place(&workspace(), "/.."), Place::Synthetic(inside("/")));
    let nested = build([grant("/a/b/c", "/home/me/w", Access::READ)], []).unwrap();
    assert_eq!(place(&nested, "/a/b"), Place::Synthetic(inside("/a/b")));
    assert_eq!(place(&nested, "/a/x"), Place::Absent(inside("/a/x")));
}

#[test]
fn a_granted_path_that_became_a_link_is_not_followed() {
    let authority = build([grant("/w", "/home/me/w/sh", Access::READ)], []).unwrap();
    let Place::Blocked { why, .. } = place(&authority, "/w") else { panic!() };
    assert_eq!(why, Block::RootIsLink);
}

#[test]
fn rules_refuse_or_confine_links() {
    let with = |symlinks| {
        let mut root = grant("/w", "/home/me/w", Access::FULL);
        root.rules.symlinks = symlinks;
        build([root, grant("/usr", "/usr", Access::READ_ONLY)], []).unwrap()
    };
    let why = |symlinks, path: &str| match place(&with(symlinks), path) {
        Place::Blocked { why, .. } => Some(why),
        _ => None,
    };
    assert_eq!(why(Symlinks::Reject, "/w/dot"), Some(Block::LinkRefused));
    assert_eq!(why(Symlinks::InRoot, "/w/dot"), None);
    assert_eq!(why(Symlinks::InRoot, "/w/sh"), Some(Block::LinkLeavesRoot));
    assert_eq!(why(Symlinks::Follow, "/w/sh"), None);
}

#[test]
fn forty_links_are_followed_and_no_more() {
    let chain = (0..41).fold(MemoryTree::default().file("/h/end"), |tree, n| {
        let target = if n == 0 { "end".to_owned() } else { format!("l{}", n - 1) };
        tree.link(&format!("/h/l{n}"), &target)
    });
    let authority = build([grant("/w", "/h", Access::READ)], []).unwrap();
    let resolve = |path: &str| authority.resolve(&chain, path).unwrap();
    assert_eq!(resolve("/w/l39").host(), Some(&host("/h/end")));
    assert_eq!(resolve("/w/l39").hops().len(), 40);
    assert!(matches!(resolve("/w/l40").place(), Place::Blocked { why: Block::Loop, .. }));
}

#[test]
fn relative_paths_and_nul_are_errors() {
    let authority = workspace();
    assert!(matches!(authority.resolve(&tree(), "w"), Err(PathError::Relative(_))));
    assert!(matches!(authority.resolve(&tree(), "/w\0"), Err(PathError::Nul(_))));
}

#[test]
fn the_hosts_own_tree_tells_kinds_apart() {
    let tree = HostTree;
    let kind = |path: &str| tree.entry(&host(path)).unwrap().map(|entry| entry.kind);
    assert_eq!(kind("/"), Some(crate::authority::Kind::Directory));
    assert_eq!(kind("/dev/null"), Some(crate::authority::Kind::Device));
    assert_eq!(kind("/proc/self"), Some(crate::authority::Kind::Symlink));
    assert_eq!(kind("/dev/null/x"), None);
    assert!(tree.read_link(&host("/proc/self")).is_ok());
}
