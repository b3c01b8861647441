//! Remotes of a foreign repository: settings that are rebuilt from checked words.

use crate::config::{Setting, split};
use crate::refs::{is_branch, is_component};

/// Remotes that are taken at most, and settings of branches.
const MOST: usize = 256;

/// Returns what of these settings is harmless. `bytes` are what `git config --null --get-regexp` prints:
/// key, line feed, value, NUL. Returns the settings, and the keys that were dropped.
pub fn remotes(bytes: &[u8]) -> (Vec<Setting>, Vec<String>) {
    let entries = bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let (mut taken, mut dropped) = (Vec::new(), Vec::new());
    for entry in entries.take(MOST) {
        let end = entry.iter().position(|byte| *byte == b'\n').unwrap_or(entry.len());
        let key = String::from_utf8_lossy(&entry[..end]).into_owned();
        let value = entry.get(end + 1..).unwrap_or_default();
        match std::str::from_utf8(value).ok().filter(|value| is_harmless(&key, value)) {
            Some(value) => taken.push(Setting { key, value: Some(value.as_bytes().to_vec()) }),
            None => dropped.push(key.escape_debug().to_string()),
        }
    }
    (taken, dropped)
}

fn is_harmless(key: &str, value: &str) -> bool {
    match split(key) {
        Some(("remote", Some(name), "url")) => is_remote_name(name) && is_url(value),
        Some(("remote", Some(name), "fetch")) => {
            is_remote_name(name) && is_own_refspec(value, name)
        }
        Some(("branch", Some(branch), "remote")) => {
            branch.split('/').all(is_component) && is_remote_name(value)
        }
        Some(("branch", Some(branch), "merge")) => {
            branch.split('/').all(is_component) && is_branch(value)
        }
        _ => false,
    }
}

/// Returns whether a refspec fetches all branches, or one as a shallow clone does, to where the remote's
/// belong.
fn is_own_refspec(value: &str, remote: &str) -> bool {
    let Some((from, to)) = value.strip_prefix('+').and_then(|it| it.split_once(':')) else {
        return false;
    };
    let branch = from.strip_prefix("refs/heads/").filter(|it| *it == "*" || is_branch(from));
    branch.is_some_and(|branch| to == format!("refs/remotes/{remote}/{branch}"))
}

/// Returns the name of a remote, never a path or a URL.
fn is_remote_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    is_component(name) && name.len() <= 255 && name.bytes().all(is_word)
}

/// Returns a URL that leads to another host: by https, or by ssh with a user's name and no password. Not
/// a path, `file:`, a remote helper (`ext::`), or what ssh takes for an option (CVE-2017-1000117).
fn is_url(url: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-~/+%:@[]=".contains(&byte);
    if url.len() > 2048 || !url.bytes().all(is_plain) || url.contains("::") {
        return false;
    }
    let is_host = |host: &str| host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[');
    let is_user = |user: &str| {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        user.starts_with(|c: char| c.is_ascii_alphanumeric()) && user.bytes().all(is_word)
    };
    let authority = |rest: &str| -> Option<(Option<String>, String)> {
        let authority = rest.split('/').next()?;
        match authority.split_once('@') {
            Some((user, host)) => Some((Some(user.to_owned()), host.to_owned())),
            None => Some((None, authority.to_owned())),
        }
    };
    if let Some(rest) = url.strip_prefix("https://") {
        // A name there may be a token.
        return authority(rest).is_some_and(|(user, host)| user.is_none() && is_host(&host));
    }
    if let Some(rest) = url.strip_prefix("ssh://") {
        let fits = |user: Option<String>| user.is_none_or(|user| is_user(&user));
        return authority(rest).is_some_and(|(user, host)| fits(user) && is_host(&host));
    }
    // user@host:path, which must not be a path with a colon in it.
    let Some((place, path)) = url.split_once(':') else { return false };
    let Some((user, host)) = place.split_once('@') else { return false };
    is_user(user) && is_host(host) && !place.contains('/') && !path.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_other_hosts_are_taken() {
        for url in [
            "https://github.com/a/b.git",
            "https://h.example:8443/a",
            "ssh://git@h.example:2222/a/b",
            "git@github.com:a/b.git",
        ] {
            assert!(is_url(url), "{url}");
        }
        for url in [
            "ext::sh -c id",
            "ext::sh",
            "file:///etc",
            "/srv/a",
            "./packages",
            "../x:y",
            "packages",
            "git://h/a",
            "http://h/a",
            "https://token@h/a",
            "https://u:p@h/a",
            "ssh://-oProxyCommand=x/a",
            "ssh://-x@h/a",
            "-oProxyCommand=x@h:a",
            "git@-h:a",
            "git@h:-a",
            "h:a",
            "a/b@h:c",
            "",
        ] {
            assert!(!is_url(url), "{url}");
        }
    }

    #[test]
    fn settings_that_could_do_more_are_dropped() {
        let text = b"remote.origin.url\nhttps://h.example/a\0remote.origin.fetch\n+refs/heads/*:refs/remotes/origin/*\0\
            branch.main.remote\norigin\0branch.main.merge\nrefs/heads/main\0remote.origin.promisor\ntrue\0\
            remote.origin.pushurl\n/tmp/x\0branch.main.pushremote\n./packages\0remote.x.fetch\n+refs/*:refs/*\0\
            remote.o.fetch\n+refs/heads/a/b:refs/remotes/o/a/b\0remote.o.fetch\n+refs/heads/a:refs/heads/a\0\
            branch.a.remote\n../evil\0remote.a/b.url\nhttps://h/a\0remote.origin.vcs\next\0core.fsmonitor\nx\0novalue\0";
        let (taken, dropped) = remotes(text);
        assert_eq!(taken.len(), 5, "{taken:?}");
        assert_eq!(dropped.len(), 10, "{dropped:?}");
    }
}
