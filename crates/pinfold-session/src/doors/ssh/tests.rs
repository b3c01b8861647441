use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use pinfold_policy::document::SettingsFile;
use pinfold_policy::settings::Layers;

use super::*;

const ORIGIN: Origin = Origin::Flag { name: "--ssh" };

/// Returns what is wrong, with the hint.
fn refusal<T>(outcome: Result<T, RunError>) -> String {
    let error = outcome.err().unwrap();
    format!("{error}; {}", error.hint().unwrap_or_default())
}

#[test]
fn key_file_is_private_and_its_public_half_lies_next_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().canonicalize().unwrap();
    let path = directory.join("id");
    let shown = path.display();
    let error = refusal(in_file(&path, &ORIGIN));
    assert!(error.starts_with(&format!("cannot read the SSH key {shown}: ")), "{error}");
    fs::write(&path, "never read here").unwrap();
    for mode in [0o640, 0o604, 0o610] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let error = refusal(in_file(&path, &ORIGIN));
        let expected = format!(
            "others than you may use the SSH key {shown}: its mode is {mode:o}; run `chmod 600 {shown}`"
        );
        assert_eq!(error, expected);
    }
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let error = refusal(in_file(&path, &ORIGIN));
    assert!(error.contains("(by --ssh): the file does not exist"), "{error}");
    assert!(error.ends_with(&format!("`ssh-keygen -y -f {shown} > {shown}.pub`")), "{error}");
    let public = PUBLISHED.lines().find_map(|line| line.strip_prefix("github.com ")).unwrap();
    fs::write(directory.join("id.pub"), public).unwrap();
    assert_eq!(in_file(&path, &ORIGIN).unwrap(), public.parse().unwrap());
    for text in ["ssh-ed25519 AAAA", ""] {
        fs::write(directory.join("id.pub"), text).unwrap();
        for error in [refusal(in_file(&path, &ORIGIN)), refusal(parsed(text, &ORIGIN))] {
            assert!(error.contains("expected a public key"), "{text}: {error}");
        }
    }
    let text = fs::read_to_string(&path).unwrap();
    assert!(!refusal(held(&path, &public.parse().unwrap())).contains(&text));
}

#[test]
fn a_host_whose_key_nobody_knows_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let places =
        Places { home: at(""), config: at("config"), state: at("state"), cache: at("cache") };
    let of = |host: &str| {
        let settings = format!("[ssh]\nkey = \"/k\"\nhosts = [{{ host = \"{host}\" }}]\n");
        let user = SettingsFile { path: Path::new("config.toml"), bytes: settings.as_bytes() };
        let settings = Settings::resolve(Layers { user: Some(user), ..Layers::default() }).unwrap();
        hosts(&settings.ssh.hosts, &places)
    };
    assert_eq!(of("github.com").unwrap()[0].keys.len(), 2);
    let error = refusal(of("git.unknown.example"));
    let expected =
        "no key is known of the host git.unknown.example (by config.toml:3); give its keys";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn published_host_keys_have_the_published_fingerprints() {
    let mut fingerprint = "";
    let mut seen = Vec::new();
    for line in PUBLISHED.lines() {
        if let Some(text) = line.strip_prefix("# SHA256:") {
            fingerprint = text;
        } else if !line.is_empty() && !line.starts_with('#') {
            let host = line.split(' ').next().unwrap();
            let keys = host_keys(line, host);
            assert_eq!(keys.len(), 1, "{line}");
            assert_eq!(keys[0].fingerprint(), format!("SHA256:{fingerprint}"), "{host}");
            seen.push(host);
        }
    }
    for host in ["github.com", "gitlab.com", "codeberg.org", "bitbucket.org"] {
        assert!(seen.contains(&host), "{host}");
        assert_eq!(host_keys(PUBLISHED, host).len(), 2, "{host}");
    }
}
