use pinfold_egress::host_keys;

use super::PUBLISHED;

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
