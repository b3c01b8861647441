//! A token that looks like the real one and is worth nothing.

use std::io;

use pinfold_secrets::Secret;
use ring::rand::{SecureRandom as _, SystemRandom};

/// Beginnings by which clients and scanners tell kinds of tokens apart; the longest that fits
/// counts. They are public.
const BEGINNINGS: [&str; 27] = [
    "AKIA",
    "ASIA",
    "AIza",
    "dop_v1_",
    "eyJ",
    "gho_",
    "ghp_",
    "ghr_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "hf_",
    "npm_",
    "pypi-",
    "rk_live_",
    "sk-",
    "sk-ant-api03-",
    "sk-ant-oat01-",
    "sk-proj-",
    "sk_live_",
    "sk_test_",
    "xapp-",
    "xoxb-",
    "xoxp-",
    "ya29.",
    "lin_api_",
];

/// Random characters that a placeholder has at least, whatever the real one has: 128 bits of
/// them, so that it is found nowhere by chance.
const LEAST: usize = 32;

/// Returns a placeholder of the same kind, alphabet and (if that is long enough) length.
///
/// # Errors
/// Returns an error if the system gave no random bytes.
pub fn placeholder_like(secret: &Secret) -> io::Result<String> {
    let value = secret.expose();
    let fits = BEGINNINGS.iter().filter(|beginning| value.starts_with(**beginning));
    let beginning = fits.max_by_key(|beginning| beginning.len()).copied().unwrap_or_default();
    let rest = &value[beginning.len()..];
    let mut token = beginning.to_owned();
    let length = rest.len().max(LEAST);
    token.push_str(&random(alphabet(rest.as_bytes()), length)?);
    Ok(token)
}

/// Returns the smallest usual alphabet that a value is written in; other characters do not matter.
fn alphabet(value: &[u8]) -> &'static [u8] {
    const WHOLE: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let all = |is: fn(&u8) -> bool| value.iter().all(is);
    if all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        &WHOLE[..16]
    } else if all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()) {
        &WHOLE[..36]
    } else {
        WHOLE
    }
}

fn random(alphabet: &[u8], length: usize) -> io::Result<String> {
    let source = SystemRandom::new();
    let mut token = String::with_capacity(length);
    // Bytes beyond the last whole multiple would make some characters likelier than others.
    let fair = 256 / alphabet.len() * alphabet.len();
    while token.len() < length {
        let mut bytes = [0; 64];
        source.fill(&mut bytes).map_err(|_| io::Error::other("no random bytes"))?;
        let fair = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < fair);
        let left = length - token.len();
        token.extend(fair.take(left).map(|byte| char::from(alphabet[byte % alphabet.len()])));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_has_the_shape_and_nothing_else_of_the_secret() {
        for (value, beginning) in [
            ("ghp_0123456789abcdefABCDEF0123456789abcd", "ghp_"),
            ("sk-ant-oat01-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4", "sk-ant-oat01-"),
            ("0123456789abcdef0123456789abcdef", ""),
        ] {
            let secret = Secret::from_bytes(value.into()).expect("a secret");
            let placeholder = placeholder_like(&secret).expect("random bytes");
            assert_eq!(placeholder.len(), value.len());
            assert!(placeholder.starts_with(beginning));
            assert_ne!(placeholder, placeholder_like(&secret).expect("random bytes"));
            let hexadecimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert_eq!(hexadecimal(value), hexadecimal(&placeholder), "{placeholder}");
        }
        let short = Secret::from_bytes(b"hunter2".to_vec()).expect("a secret");
        assert_eq!(placeholder_like(&short).expect("random bytes").len(), LEAST);
    }
}
