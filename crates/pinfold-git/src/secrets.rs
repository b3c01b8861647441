//! Credentials that a git configuration holds: they stay out of the sandbox's copy.
//!
//! Checkouts by CI systems keep a token in `http.<url>.extraheader`, and people keep passwords in
//! the URLs of remotes. The host's file is not touched, and what is only missing from the copy is
//! no change of it, so nothing of this is carried back.

use crate::config::{Config, Setting, split, write};

/// Returns the configuration without credentials; `None` when there are none in it.
pub fn without_secrets(bytes: &[u8]) -> Option<Vec<u8>> {
    let config = Config::parse(bytes);
    let clean: Vec<Setting> = config.settings.iter().filter_map(clean).collect();
    (!config.broken && clean != config.settings).then(|| write(&clean))
}

fn clean(setting: &Setting) -> Option<Setting> {
    let (section, subsection, name) = split(&setting.key)?;
    let is_credential = match (section, name) {
        ("http", "extraheader" | "proxy") | ("credential", "password") => true,
        ("remote", "proxy") => true,
        // The subsection is a URL; what stands for it is no secret.
        ("url", _) => subsection.is_some_and(|url| password(url.as_bytes()).is_some()),
        _ => false,
    };
    if is_credential {
        return None;
    }
    let mut setting = setting.clone();
    if let Some(value) = &mut setting.value
        && let Some((start, end)) = password(value)
    {
        value.drain(start..end);
    }
    Some(setting)
}

/// Returns where in a URL the user's name and password are, with the `@` after them. A name alone is no
/// credential, except for https, where a token may stand in its place.
fn password(value: &[u8]) -> Option<(usize, usize)> {
    let scheme = value.windows(3).position(|part| part == b"://")?;
    let start = scheme + 3;
    let authority = value[start..].split(|byte| *byte == b'/').next()?;
    let at = authority.iter().rposition(|byte| *byte == b'@')?;
    let is_web = value[..scheme].starts_with(b"http");
    (is_web || authority[..at].contains(&b':')).then_some((start, start + at + 1))
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    fn cleaned(text: &str) -> Option<String> {
        without_secrets(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn tokens_and_passwords_are_left_out() {
        let text = "[remote \"o\"]\n\turl = https://x:tok@h.example/a.git\n\tfetch = +a:b\n\
                    [http \"https://h.example/\"]\n\textraheader = AUTHORIZATION: basic dG9r\n\
                    [url \"https://tok@h.example\"]\n\tinsteadOf = gh\n";
        let clean = cleaned(text).unwrap();
        assert!(!clean.contains("tok") && !clean.contains("dG9r"), "{clean}");
        assert!(clean.contains("https://h.example/a.git") && clean.contains("+a:b"), "{clean}");
    }

    #[test]
    fn a_configuration_without_credentials_stays_byte_for_byte() {
        for url in ["https://h.example/a@b", "ssh://git@h.example/a", "git@h.example:a", "/a"] {
            assert_eq!(cleaned(&format!("[remote \"o\"]\n url = {url} ; c\n")), None, "{url}");
        }
    }
}
