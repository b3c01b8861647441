//! `[ssh]`, and what follows from it for the network.

use super::*;
use crate::settings::FlagScalars;
use crate::ssh::SshKey;

const HOST: &str = "hosts = [{ host = \"Git.Example.com\" }, \
                    { host = \"b.example.com\", port = 2222, user = \"me\", hostbound = false }]\n";

fn rules(settings: &Settings) -> Vec<String> {
    settings.network.allow.iter().map(|rule| rule.value.to_string()).collect()
}

#[test]
fn a_named_host_may_be_reached_on_its_port_once_there_is_a_key() {
    let text: &'static str = format!("[ssh]\nkey = \"~/.ssh/id\"\n{HOST}").leak();
    let settings = user(text).resolve().unwrap();
    assert_eq!(rules(&settings), ["git.example.com:22", "b.example.com:2222"]);
    let key = settings.ssh.key.unwrap().value;
    assert_eq!(key, SshKey::File(HostPath::new("/home/me/.ssh/id").unwrap()));
    let hosts: Vec<String> = settings.ssh.hosts.iter().map(|host| host.value.to_string()).collect();
    assert_eq!(hosts, ["git@git.example.com:22", "me@b.example.com:2222"]);
    assert!(settings.ssh.hosts[0].value.hostbound && !settings.ssh.hosts[1].value.hostbound);

    let keyless: &'static str = format!("[ssh]\n{HOST}").leak();
    assert!(rules(&user(keyless).resolve().unwrap()).is_empty());
    let flags = Flags {
        scalars: FlagScalars { identity: Some("alice".to_owned()), ..FlagScalars::default() },
        ..Flags::default()
    };
    let named = Case { user: keyless, flags, ..Case::default() }.resolve().unwrap();
    assert_eq!(rules(&named).len(), 2);
    assert_eq!(named.scalars.identity_mode, Valued::default_of(IdentityMode::Brokered));
}

#[test]
fn the_administrators_hosts_bound_the_hosts_of_ssh() {
    let text: &'static str = format!("[ssh]\nkey = \"/k\"\n{HOST}").leak();
    let error = ceiling("[network]\nhosts = [\"git.example.com:22\"]\n", text).error();
    assert!(error.contains("b.example.com:2222"), "{error}");
}

#[test]
fn mistakes_name_the_place_and_what_is_expected() {
    for (text, expected) in [
        ("[ssh]\nkey = \"/k\"\nagent = true\n", "expected either key"),
        ("[ssh]\nagent = true\n", "expected either key"),
        ("[ssh]\npublic_key = \"ssh-ed25519 AAAA\"\n", "expected either key"),
        ("[ssh]\nagent = true\npublic_key = \"AAAA\"\n", "expected a public key"),
        ("[ssh]\nkey = \"relative\"\n", "expected an absolute path"),
        ("[ssh]\nhosts = [{ user = \"git\" }]\n", "host"),
        ("[ssh]\nhosts = [{ host = \"192.0.2.1\" }]\n", "expected a host by its name"),
        ("[ssh]\nhosts = [{ host = \"a.example\", user = \"a b\" }]\n", "expected letters"),
        ("[ssh]\nhosts = [{ host = \"a.example\", port = 70000 }]\n", "at most 65535"),
        ("[ssh]\nhosts = [{ host = \"a.example\", known = [] }]\n", "leave it out"),
        ("[ssh]\nhosts = [{ host = \"a.example\", known = [\"x\"] }]\n", "expected a public key"),
        ("[ssh]\nhosts = [{ host = \"a.example\" }, { host = \"A.example\" }]\n", "named twice"),
        ("identity_mode = \"broker\"\n", "brokered, inject"),
    ] {
        let error = user(text).error();
        assert!(error.contains("config.toml:") && error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_repository_names_no_key() {
    let error = project("[ssh]\nkey = \"/k\"\n").error();
    assert!(error.contains("ssh"), "{error}");
}
