//! What the door signs, and what it does not, message by message.

use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use super::conversation::{Conversation, Purpose, Verdict};
use super::{SshConfig, SshHost, SshKeyError, SshPrivateKey, SshPublicKey, SshSigner};
use super::{host_keys, host_label};
use crate::gateway::{Event, Journal};
use pinfold_ssh::fields::put_string;

/// A journal that keeps nothing: these tests look at verdicts.
struct Silent;

impl Journal for Silent {
    fn record(&self, _: &Event<'_>) -> io::Result<()> {
        Ok(())
    }
}

fn strings(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        put_string(&mut out, part);
    }
    out
}

/// Returns an OpenSSH key file (PROTOCOL.key) with the Ed25519 key of this seed.
fn key_file(seed: u8, cipher: &str) -> String {
    let seed = [seed; 32];
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    let point = pair.public_key().as_ref();
    let public = strings(&[b"ssh-ed25519", point]);
    let mut private = vec![1, 2, 3, 4, 1, 2, 3, 4];
    private.extend(strings(&[b"ssh-ed25519", point, &[&seed[..], point].concat(), b"comment"]));
    private.extend(1..=(8 - private.len() % 8) as u8);
    let mut file = b"openssh-key-v1\0".to_vec();
    file.extend(strings(&[cipher.as_bytes(), b"none", b""]));
    file.extend([0, 0, 0, 1]);
    file.extend(strings(&[&public, &private]));
    let text = STANDARD.encode(file);
    format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{text}\n-----END OPENSSH PRIVATE KEY-----\n")
}

fn key(seed: u8) -> SshPrivateKey {
    SshPrivateKey::parse(&key_file(seed, "none")).unwrap()
}

const OWN: u8 = 1;
const HOST: u8 = 2;
const STRANGER: u8 = 3;

fn config(hostbound: bool) -> SshConfig {
    let host = SshHost {
        label: "git.example.com".to_owned(),
        user: "git".to_owned(),
        keys: vec![key(HOST).public().clone()],
        hostbound,
    };
    SshConfig {
        key: key(OWN).public().clone(),
        signer: SshSigner::Held(Box::new(key(OWN))),
        hosts: vec![host],
        journal: Arc::new(Silent),
    }
}

const SESSION: &[u8] = &[9; 32];

fn bind(host: u8, session: &[u8], forwarding: bool) -> Vec<u8> {
    let host = key(host);
    let signature = host.sign("ssh-ed25519", session).unwrap();
    let parts: [&[u8]; 4] =
        [b"session-bind@openssh.com", host.public().blob(), session, &signature];
    [vec![27], strings(&parts), vec![u8::from(forwarding)]].concat()
}

fn sign(data: &[u8]) -> Vec<u8> {
    [vec![13], strings(&[key(OWN).public().blob(), data]), vec![0; 4]].concat()
}

fn document(namespace: &str) -> Vec<u8> {
    let parts: [&[u8]; 4] = [namespace.as_bytes(), b"", b"sha512", &[0; 64]];
    [b"SSHSIG".to_vec(), strings(&parts)].concat()
}

fn login(session: &[u8], user: &str, host: Option<u8>) -> Vec<u8> {
    let method = match host {
        Some(_) => "publickey-hostbound-v00@openssh.com",
        None => "publickey",
    };
    let mut data = strings(&[session]);
    data.push(50);
    data.extend(strings(&[user.as_bytes(), b"ssh-connection", method.as_bytes()]));
    data.push(1);
    data.extend(strings(&[b"ssh-ed25519", key(OWN).public().blob()]));
    data.extend(host.map(|host| strings(&[key(host).public().blob()])).unwrap_or_default());
    data
}

/// Returns the last answer of a connection on which these messages come.
fn last(config: &SshConfig, messages: &[Vec<u8>]) -> Verdict {
    let mut conversation = Conversation::new(config);
    let answers: Vec<Verdict> = messages.iter().map(|m| conversation.judge(m)).collect();
    answers.into_iter().next_back().unwrap()
}

fn refusal(messages: &[Vec<u8>]) -> String {
    match last(&config(true), messages) {
        Verdict::Refuse(refusal) => refusal.reason,
        other => panic!("not refused: {other:?}"),
    }
}

const FAILURE: &[u8] = &[5];

#[test]
fn only_the_one_key_is_offered() {
    let Verdict::Answer(answer) = last(&config(true), &[vec![11]]) else { panic!() };
    let expected = [vec![12, 0, 0, 0, 1], strings(&[key(OWN).public().blob(), b"pinfold"])];
    assert_eq!(answer, expected.concat());
}

#[test]
fn every_other_request_fails_at_once() {
    let extension = |name: &str| [vec![27], strings(&[name.as_bytes()])].concat();
    let others = [
        vec![],
        vec![0],
        vec![1],
        vec![17, 0, 0, 0, 3],
        vec![19],
        vec![22, 0, 0, 0, 0],
        vec![25],
        vec![26],
        extension("query"),
        extension("session-bind@openssh.com"),
        vec![11, 0],
    ];
    for message in others {
        let verdict = last(&config(true), std::slice::from_ref(&message));
        assert_eq!(verdict, Verdict::Answer(FAILURE.to_vec()), "{message:?}");
    }
}

#[test]
fn commits_and_tags_are_signed_and_no_other_document() {
    let Verdict::Sign(permit) = last(&config(true), &[sign(&document("git"))]) else { panic!() };
    assert_eq!(permit.purpose, Purpose::Git);
    for namespace in ["file", "", "git ", "GIT", "git@example.com"] {
        assert!(refusal(&[sign(&document(namespace))]).contains("only commits"), "{namespace}");
    }
    let more = [document("git"), vec![0]].concat();
    let reserved = [b"SSHSIG".to_vec(), strings(&[b"git", b"x", b"sha512", &[0; 64]])].concat();
    let short = [b"SSHSIG".to_vec(), strings(&[b"git", b"", b"sha512", &[0; 32]])].concat();
    for data in [more, reserved, short, b"any challenge".to_vec(), Vec::new(), vec![0; 64]] {
        assert!(refusal(&[sign(&data)]).contains("only commits"));
    }
}

#[test]
fn another_key_or_unknown_flags_are_refused() {
    let parts = strings(&[key(STRANGER).public().blob(), &document("git")]);
    assert!(refusal(&[[vec![13], parts, vec![0; 4]].concat()]).contains("another key"));
    let parts = strings(&[key(OWN).public().blob(), &document("git")]);
    assert!(refusal(&[[vec![13], parts, vec![0, 0, 0, 2]].concat()]).contains("flags"));
}

#[test]
fn a_login_needs_the_pinned_host_that_proved_itself_and_the_user() {
    let bound = bind(HOST, SESSION, false);
    let good = sign(&login(SESSION, "git", Some(HOST)));
    let messages = [bound.clone(), bound.clone(), good.clone()];
    let Verdict::Sign(permit) = last(&config(true), &messages) else { panic!() };
    let Purpose::Login { label, user, host_key, .. } = permit.purpose else { panic!() };
    assert_eq!((label.as_str(), user.as_str()), ("git.example.com", "git"));
    assert_eq!(host_key, *key(HOST).public());

    assert!(refusal(std::slice::from_ref(&good)).contains("has not proved itself"));
    let other = |session, user, host| vec![bound.clone(), sign(&login(session, user, host))];
    assert!(refusal(&other(&[8; 32], "git", Some(HOST))).contains("another host"));
    assert!(refusal(&other(SESSION, "git", Some(STRANGER))).contains("another host"));
    assert!(refusal(&other(SESSION, "root", Some(HOST))).contains("as root"));
    assert!(refusal(&other(SESSION, "git", None)).contains("does not name the host key"));
    let stranger = [bind(STRANGER, SESSION, false), sign(&login(SESSION, "git", Some(STRANGER)))];
    assert!(refusal(&stranger).contains("not pinned"));
}

#[test]
fn a_host_that_cannot_be_named_in_the_signature_still_has_to_prove_itself() {
    let plain = sign(&login(SESSION, "git", None));
    let lenient = config(false);
    let verdict = last(&lenient, &[bind(HOST, SESSION, false), plain.clone()]);
    assert!(matches!(verdict, Verdict::Sign(_)));
    for messages in [vec![plain.clone()], vec![bind(HOST, &[8; 32], false), plain]] {
        assert!(matches!(last(&lenient, &messages), Verdict::Refuse(_)));
    }
}

#[test]
fn a_forged_binding_binds_nothing() {
    let mut forged = bind(HOST, SESSION, false);
    let at = forged.len() - 2;
    forged[at] ^= 1;
    let verdict = last(&config(true), std::slice::from_ref(&forged));
    assert_eq!(verdict, Verdict::Answer(FAILURE.to_vec()));
    let good = sign(&login(SESSION, "git", Some(HOST)));
    assert!(refusal(&[forged, good]).contains("has not proved itself"));
}

#[test]
fn a_forwarded_or_reused_connection_signs_nothing() {
    let good = sign(&login(SESSION, "git", Some(HOST)));
    let git = sign(&document("git"));
    let forwarded = bind(STRANGER, SESSION, true);
    assert!(refusal(std::slice::from_ref(&forwarded)).contains("not forwarded"));
    let bound = bind(HOST, SESSION, false);
    let second = bind(HOST, &[8; 32], false);
    for last in [&good, &git, &bound] {
        for spoilt in [
            vec![forwarded.clone(), bound.clone()],
            vec![bound.clone(), forwarded.clone()],
            vec![bound.clone(), second.clone()],
        ] {
            let messages = [spoilt, vec![last.clone()]].concat();
            refusal(&messages);
        }
    }
}

#[test]
fn no_message_that_is_cut_or_changed_is_taken_for_a_good_one() {
    let good = [
        bind(HOST, SESSION, false),
        sign(&login(SESSION, "git", Some(HOST))),
        sign(&document("git")),
    ];
    let config = config(true);
    for message in good {
        for end in 0..message.len() {
            let verdict = last(&config, &[message[..end].to_vec()]);
            assert!(!matches!(verdict, Verdict::Sign(_)), "{end}");
        }
        for at in 0..message.len() {
            for byte in [0, 0x7f, 0xff] {
                let mut changed = message.clone();
                changed[at] = byte;
                // Whatever it is now, it is answered.
                last(&config, &[changed]);
            }
        }
    }
}

#[test]
fn damaged_and_protected_key_files_are_refused_without_their_content() {
    let file = key_file(OWN, "none");
    for end in 0..file.len() - 1 {
        assert!(SshPrivateKey::parse(&file[..end]).is_err());
    }
    let protected = SshPrivateKey::parse(&key_file(OWN, "aes256-ctr"));
    assert_eq!(protected.err(), Some(SshKeyError::Encrypted));
    let pem = SshPrivateKey::parse("-----BEGIN RSA PRIVATE KEY-----");
    assert_eq!(pem.err(), Some(SshKeyError::Format));
}

#[test]
fn known_hosts_are_found_by_name_port_and_hash_but_not_when_revoked() {
    let (one, two) = (key(HOST).public().clone(), key(STRANGER).public().clone());
    // As ssh-keygen -H writes the name.
    let hashed = "|1|ZmZmZmZmZmZmZmZmZmZmZmZmZmY=|";
    let salt = ring::hmac::Key::new(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &[0x66; 20]);
    let hash = STANDARD.encode(ring::hmac::sign(&salt, b"git.example.com"));
    let file = format!(
        "# comment\n\ngit.example.com,192.0.2.1 {one} me\n[git.example.com]:2222 {two}\n\
         {hashed}{hash} {two}\n*.example.com {two}\n@cert-authority other.example.com {two}\n\
         bad.example.com,!bad.example.com {two}\nbroken.example.com ssh-ed25519 AAAA\n"
    );
    let found = |label: &str| host_keys(&file, label);
    assert_eq!(found("git.example.com"), [one.clone(), two.clone()]);
    assert_eq!(found("Git.Example.com"), [one, two.clone()]);
    assert_eq!(found(&host_label("git.example.com", 2222)), std::slice::from_ref(&two));
    for label in ["a.example.com", "other.example.com", "bad.example.com", "broken.example.com"] {
        assert_eq!(found(label), [], "{label}");
    }
    let revoked = host_keys(&format!("{file}@revoked * {two}\n"), "git.example.com");
    assert_eq!(revoked, [key(HOST).public().clone()]);
}

#[test]
fn a_public_key_is_its_type_and_data() {
    let text = key(OWN).public().to_string();
    assert_eq!(text.parse::<SshPublicKey>().unwrap(), *key(OWN).public());
    assert!(text.replacen("ssh-ed25519", "ssh-rsa", 1).parse::<SshPublicKey>().is_err());
    for bad in ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-ed25519 !"] {
        assert!(bad.parse::<SshPublicKey>().is_err(), "{bad}");
    }
}
