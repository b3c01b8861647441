//! Questions that are posted to a URL, signed as Standard Webhooks 1.0 has it.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use data_encoding::BASE64;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use pinfold_egress::{Connector, Failure, Offer, WayOut};
use pinfold_host::Host;
use pinfold_host::Refusal;
use pinfold_policy::settings::AskSettings;
use pinfold_secrets::{SecretId, Store};
use pinfold_terminal::notify;
use ring::hmac;
use zeroize::Zeroizing;

/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a question is posted at most, and how long is waited in between.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
const AGENT: &str = concat!("pinfold/", env!("CARGO_PKG_VERSION"));
/// What the secrets of Standard Webhooks begin with; base64 follows.
const ENCODED: &str = "whsec_";

/// Reads the secret that signs, as it is now.
type ReadSecret = Box<dyn Fn() -> Result<Zeroizing<String>, Refusal> + Send + Sync>;

/// Where questions are posted to.
pub(crate) struct Webhook {
    /// Its path is a secret with many services.
    url: String,
    secret: ReadSecret,
}

impl Webhook {
    /// Returns the webhook of the settings, if its secret is there.
    pub(crate) fn find(settings: &AskSettings, host: Host<'_>) -> Option<Self> {
        let (url, name) = (settings.webhook.as_ref()?, settings.webhook_secret.as_ref()?);
        let (store, launcher) = (Store::new(host.places.secrets()), host.launcher.clone());
        let id = SecretId::new(name.value.clone());
        let secret: ReadSecret = Box::new(move || {
            let id = id.as_ref().map_err(ToString::to_string)?;
            let resolved = store.resolve(id, &launcher).map_err(Refusal::of)?;
            Ok(Zeroizing::new(resolved.secret.expose().to_owned()))
        });
        if let Err(error) = secret() {
            let name = &name.value;
            notify!(
                "pinfold: note: questions are not posted to your webhook: {error} (`pinfold secret set {name}`)"
            );
            return None;
        }
        Some(Self { url: url.value.as_str().to_owned(), secret })
    }

    /// Posts a question; `id` is the same for each attempt.
    ///
    /// # Errors
    /// Returns why it did not arrive, without the URL.
    pub(crate) fn post(&self, id: &str, body: &[u8]) -> Result<(), Refusal> {
        let secret = (self.secret)()?;
        let url: Uri = self.url.parse().map_err(|_| "the webhook's URL is not one".to_owned())?;
        let way = WayOut::from_environment().map_err(|error| {
            let hint = error.hint();
            Refusal::of(error).with_hint(hint)
        })?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Refusal::of)?;
        let client = Client::builder(TokioExecutor::new()).build(Connector::new(way, Offer::Http1));
        runtime.block_on(async {
            let mut failure = String::new();
            for attempt in 0..ATTEMPTS {
                if attempt > 0 {
                    tokio::time::sleep(PAUSE * attempt).await;
                }
                let request = signed(&url, id, body, &secret)?;
                match tokio::time::timeout(PATIENCE, client.request(request)).await {
                    Ok(Ok(answer)) if answer.status().is_success() => return Ok(()),
                    Ok(Ok(answer)) => failure = format!("the webhook answered {}", answer.status()),
                    Ok(Err(error)) => {
                        let cause = Failure::behind(&error).map(ToString::to_string);
                        let cause = cause.unwrap_or_else(|| Failure::innermost(&error));
                        failure = format!("the webhook cannot be reached: {cause}");
                    }
                    Err(_) => failure = "the webhook does not answer".to_owned(),
                }
            }
            Err(failure.into())
        })
    }
}

/// Returns the request, with a signature over its id, the time and its body.
///
/// # Errors
/// Returns what cannot be sent.
fn signed(url: &Uri, id: &str, body: &[u8], secret: &str) -> Result<Request<Full<Bytes>>, Refusal> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let time = now.map_err(Refusal::of)?.as_secs().to_string();
    let signature = signature(secret, id, &time, body)?;
    let mut request = Request::new(Full::new(Bytes::copy_from_slice(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = url.clone();
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    for (name, value) in
        [("webhook-id", id), ("webhook-timestamp", &time), ("webhook-signature", &signature)]
    {
        let value = HeaderValue::from_str(value).map_err(Refusal::of)?;
        headers.insert(name, value);
    }
    Ok(request)
}

/// Returns the signature of a message.
///
/// # Errors
/// Returns an error for a secret that is not encoded as it says.
fn signature(secret: &str, id: &str, time: &str, body: &[u8]) -> Result<String, Refusal> {
    let key = match secret.strip_prefix(ENCODED) {
        Some(encoded) => {
            let key = BASE64.decode(encoded.as_bytes());
            Zeroizing::new(key.map_err(|_| format!("what follows {ENCODED} is not base64"))?)
        }
        None => Zeroizing::new(secret.as_bytes().to_vec()),
    };
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let message = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
    Ok(format!("v1,{}", BASE64.encode(hmac::sign(&key, &message).as_ref())))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// A service, or who speaks for it, would have the question and its links posted elsewhere.
    #[test]
    fn redirect_is_not_followed_and_the_error_does_not_name_the_url() {
        let (service, elsewhere) =
            [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap()).into();
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{}/s3cret", port(&service));
        let location = format!("http://127.0.0.1:{}/", port(&elsewhere));
        let answering = std::thread::spawn(move || {
            for _ in 0..ATTEMPTS {
                let (mut stream, _) = service.accept().unwrap();
                let mut said = Vec::new();
                while !said.ends_with(b"{}") {
                    let mut room = [0; 4096];
                    let length = stream.read(&mut room).unwrap();
                    said.extend(&room[..length]);
                }
                let head = format!(
                    "HTTP/1.1 307 Elsewhere\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).unwrap();
            }
        });
        let webhook = Webhook { url, secret: Box::new(|| Ok(Zeroizing::new("key".to_owned()))) };
        let failure = webhook.post("a-1", b"{}").unwrap_err().to_string();
        answering.join().unwrap();
        assert!(failure.contains("307") && !failure.contains("s3cret"), "{failure}");
        elsewhere.set_nonblocking(true).unwrap();
        assert!(elsewhere.accept().is_err(), "it was followed");
    }

    #[test]
    fn signature_is_the_one_of_standard_webhooks() {
        // The example of the specification.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let signed = signature(
            secret,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "1614265330",
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signed.unwrap(), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert!(signature("whsec_!", "a", "1", b"").is_err());
    }
}
