use super::{TAKEN, Verdict, judge};
use crate::config::Setting;

fn verdict(key: &str, value: &str) -> Verdict {
    judge(&Setting { key: key.to_owned(), value: Some(value.as_bytes().to_vec()) })
}

#[test]
fn harmless_settings_are_taken() {
    for (key, value) in [
        ("user.name", "Ada Lovelace"),
        ("user.email", "ada@example.org"),
        ("branch.feature/x.remote", "origin"),
        ("branch.main.merge", "refs/heads/main"),
        ("branch.a.b.c.rebase", "true"),
        ("remote.origin.url", "https://example.org/a.git"),
        ("remote.origin.url", "git@example.org:a/b.git"),
        ("remote.origin.url", "ssh://git@example.org:22/a.git"),
        ("remote.origin.url", "../other"),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ("submodule.lib.url", "https://example.org/lib.git"),
        ("color.diff.meta", "bold yellow"),
        ("pull.rebase", "merges"),
    ] {
        assert_eq!(verdict(key, value), Verdict::Take, "{key}={value}");
    }
}

#[test]
fn whatever_runs_a_program_or_leads_elsewhere_stays_inside() {
    for key in [
        "alias.st",
        "browser.x.cmd",
        "core.alternaterefscommand",
        "core.askpass",
        "core.attributesfile",
        "core.bare",
        "core.editor",
        "core.excludesfile",
        "core.fsmonitor",
        "core.gitproxy",
        "core.hookspath",
        "core.pager",
        "core.sshcommand",
        "core.worktree",
        "credential.helper",
        "credential.https://example.org.helper",
        "diff.external",
        "diff.x.command",
        "diff.x.textconv",
        "difftool.x.cmd",
        "extensions.partialclone",
        "extensions.worktreeconfig",
        "fetch.fsck.skiplist",
        "filter.x.clean",
        "filter.x.process",
        "filter.x.smudge",
        "gpg.program",
        "gpg.ssh.defaultkeycommand",
        "http.proxy",
        "http.https://example.org.sslverify",
        "include.path",
        "includeif.gitdir:/x.path",
        "interactive.difffilter",
        "merge.x.driver",
        "mergetool.x.cmd",
        "pager.log",
        "protocol.ext.allow",
        "receive.denycurrentbranch",
        "remote.o.proxy",
        "remote.o.receivepack",
        "remote.o.uploadpack",
        "remote.o.vcs",
        "safe.directory",
        "sendemail.x.smtpserver",
        "sequence.editor",
        "trailer.x.command",
        "transfer.fsckobjects",
        "uploadpack.packobjectshook",
        "url.https://evil/.insteadof",
        "url.ext::sh.pushinsteadof",
    ] {
        assert_eq!(verdict(key, "./program"), Verdict::Keep, "{key}");
    }
}

#[test]
fn values_that_smuggle_stay_inside() {
    for (key, value) in [
        ("remote.o.url", "ext::sh -c id"),
        ("remote.o.url", "fd::3"),
        ("remote.o.url", "-oProxyCommand=id"),
        ("remote.o.url", "ssh://-oProxyCommand=id/x"),
        ("remote.o.url", "ssh://a@-oProxyCommand=id/x"),
        ("remote.o.url", "-a:b"),
        ("remote.o.url", "gopher://x/y"),
        ("remote.-x.url", "https://example.org"),
        ("branch.m.remote", "ext::sh -c id"),
        ("branch.m.remote", "https://example.org/x"),
        ("user.name", "a\n[core]\nhooksPath=/x"),
        ("submodule.x.update", "!id"),
        ("user.signingkey", "--output=x"),
    ] {
        assert_eq!(verdict(key, value), Verdict::Keep, "{key}={value}");
    }
}

#[test]
fn the_table_is_sorted_by_section_and_has_no_row_twice() {
    for pair in TAKEN.windows(2) {
        let [first, second] = pair else { continue };
        assert!(first.0 <= second.0, "{first:?} before {second:?}");
        assert_ne!((first.0, first.1, first.2), (second.0, second.1, second.2));
    }
}
