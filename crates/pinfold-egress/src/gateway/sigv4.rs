//! Signatures of requests to AWS (Signature Version 4,
//! docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html).

use std::time::SystemTime;

use data_encoding::HEXLOWER;
use http::header::{AUTHORIZATION, HeaderName};
use http::{HeaderMap, HeaderValue, Method};
use pinfold_secrets::Secret;
use ring::{digest, hmac};

use crate::percent;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const TERMINATOR: &str = "aws4_request";
const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// Headers that are signed besides those that begin with `x-amz-`. Others may change on their way.
const SIGNED: [&str; 2] = ["content-type", "host"];

/// Keys of an AWS account, as `aws configure export-credentials --format process` prints them
/// (docs.aws.amazon.com/cli/latest/userguide/cli-configure-sourcing-external.html).
pub(super) struct AwsKeys {
    id: Secret,
    secret: Secret,
    session: Option<Secret>,
}

/// A signature for one service in one region.
pub(super) struct Signer<'a> {
    pub(super) keys: &'a AwsKeys,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
    pub(super) at: SystemTime,
}

/// A request that is to be signed, without its headers.
pub(super) struct Unsigned<'a> {
    pub(super) method: &'a Method,
    /// The path as it is sent, every segment encoded once.
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) body: &'a [u8],
}

impl AwsKeys {
    /// Reads keys. Returns `None` for a text that is something else, such as a key of Bedrock's.
    pub(super) fn read(text: &str) -> Option<Self> {
        let object: serde_json::Value = serde_json::from_str(text).ok()?;
        let secret = |key: &str| Secret::from_bytes(object[key].as_str()?.as_bytes().to_vec()).ok();
        let session = match &object["SessionToken"] {
            serde_json::Value::Null => None,
            _ => Some(secret("SessionToken")?),
        };
        Some(Self { id: secret("AccessKeyId")?, secret: secret("SecretAccessKey")?, session })
    }

    /// Returns every value that must not come back.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        [&self.id, &self.secret].into_iter().chain(&self.session).map(Secret::expose)
    }
}

impl Signer<'_> {
    /// Adds date, token and signature to the headers of a request, which has a `Host`. Returns `None` if a
    /// value cannot be sent in a header.
    pub(super) fn sign(&self, request: &Unsigned<'_>, headers: &mut HeaderMap) -> Option<()> {
        let time = humantime::format_rfc3339_seconds(self.at).to_string().replace(['-', ':'], "");
        let date = time.split('T').next()?;
        headers.insert(DATE, HeaderValue::from_str(&time).ok()?);
        if let Some(session) = &self.keys.session {
            headers.insert(TOKEN, sensitive(session.expose())?);
        }
        let (canonical, signed) = canonical(request, headers)?;
        let scope = format!("{date}/{}/{}/{TERMINATOR}", self.region, self.service);
        let to_sign = format!("{ALGORITHM}\n{time}\n{scope}\n{}", hash(canonical.as_bytes()));
        let signature = HEXLOWER.encode(hmac::sign(&self.key(date), to_sign.as_bytes()).as_ref());
        let id = self.keys.id.expose();
        let value = format!(
            "{ALGORITHM} Credential={id}/{scope}, SignedHeaders={signed}, Signature={signature}"
        );
        headers.insert(AUTHORIZATION, sensitive(&value)?);
        Some(())
    }

    fn key(&self, date: &str) -> hmac::Key {
        let first = format!("AWS4{}", self.keys.secret.expose());
        let mut key = hmac::Key::new(hmac::HMAC_SHA256, first.as_bytes());
        for part in [date, self.region, self.service, TERMINATOR] {
            key = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref());
        }
        key
    }
}

/// Returns the canonical request and the names of the headers in it.
fn canonical(request: &Unsigned<'_>, headers: &HeaderMap) -> Option<(String, String)> {
    let is_signed = |name: &str| SIGNED.contains(&name) || name.starts_with("x-amz-");
    let mut names: Vec<&str> =
        headers.keys().map(HeaderName::as_str).filter(|name| is_signed(name)).collect();
    names.sort_unstable();
    let mut lines = String::new();
    for name in &names {
        let values = headers
            .get_all(*name)
            .iter()
            .map(|value| value.to_str().ok().map(collapsed))
            .collect::<Option<Vec<_>>>()?
            .join(",");
        lines.push_str(&format!("{name}:{values}\n"));
    }
    // Services other than S3 encode what is encoded already once more.
    let path: Vec<String> = request.path.split('/').map(percent::encoded).collect();
    let mut query: Vec<&str> = request.query.split('&').filter(|pair| !pair.is_empty()).collect();
    query.sort_unstable();
    let (path, query, signed) = (path.join("/"), query.join("&"), names.join(";"));
    let (method, body) = (request.method, hash(request.body));
    Some((format!("{method}\n{path}\n{query}\n{lines}\n{signed}\n{body}"), signed))
}

fn collapsed(value: &str) -> String {
    value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(digest::digest(&digest::SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests;
