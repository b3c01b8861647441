//! What the gateway reports to the audit log, before it happens.

use std::io;

use pinfold_policy::prices::Tokens;

use super::config::ProviderId;

/// Keeps a record of what the gateway does. Called on the gateway's thread: an implementation
/// that blocks, blocks every stream of the session.
pub trait Journal: Send + Sync {
    /// Records an event. For [`Event::CredentialUse`] it returns before the credential is used.
    ///
    /// # Errors
    /// Returns an error if the event could not be recorded; the request is refused with 503 then.
    fn record(&self, event: &Event<'_>) -> io::Result<()>;
}

/// Something to be recorded. Holds neither a credential nor a query string, and at most
/// [`Event::MAX_TEXT`] bytes of anything the sandbox chose.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A request is about to go out with the real credential.
    CredentialUse {
        /// Whose credential.
        provider: &'a ProviderId,
        /// The request's method.
        method: &'a str,
        /// The host it goes to.
        host: &'a str,
        /// The path it asks for there.
        path: &'a str,
    },
    /// An answer has ended.
    Usage {
        provider: &'a ProviderId,
        model: &'a str,
        /// What it used.
        tokens: Tokens,
        /// What that cost, in billionths of a USD, where the model's price is known.
        cost: Option<u64>,
        /// Whether the provider has not said so itself.
        estimated: bool,
    },
    /// A connection is about to be opened.
    Connect {
        /// Host and port, by the name that was asked for.
        asked: &'a str,
        /// The rule that allows it, and who gave it.
        rule: &'a str,
    },
    /// A secret is about to be put into a request.
    SecretUse {
        /// The secret's name.
        id: &'a str,
        /// The request's method.
        method: &'a str,
        /// Host and port.
        asked: &'a str,
        /// The path it asks for there.
        path: &'a str,
    },
    /// A connection, a name or a request to somewhere is refused.
    Refused {
        /// Host and port, by the name that was asked for.
        asked: &'a str,
        /// Why, as the sandbox sees it.
        reason: &'a str,
        /// The flag that would allow it.
        hint: Option<&'a str>,
    },
    /// A commit or a tag is about to be signed.
    GitSignature {
        /// The key's fingerprint.
        key: &'a str,
    },
    /// A login to a host is about to be signed.
    SshLogin {
        /// The key's fingerprint.
        key: &'a str,
        host: &'a str,
        /// As which user.
        user: &'a str,
        /// The fingerprint of the host's key.
        host_key: &'a str,
    },
    /// Something else was to be signed.
    SignatureRefused {
        /// What, in a word.
        what: &'a str,
        reason: &'a str,
        /// What would allow it.
        hint: Option<&'a str>,
    },
    /// A request to the gateway is refused, went out in vain, or could not be read: then nothing is
    /// known of it but the status.
    Denied {
        /// The status it is answered with.
        status: u16,
        /// Why, as the sandbox sees it.
        reason: &'a str,
        /// The request's method.
        method: &'a str,
        /// The host it asked for.
        host: &'a str,
        /// The path it asked for.
        path: &'a str,
        /// Whether the user should know at once.
        for_user: bool,
    },
    /// A provider gave no answer for a while, or one that nothing but a change on the host mends.
    /// Nothing of it has to be recorded.
    ProviderFailed {
        provider: &'a ProviderId,
        /// The host that was asked, with its port if that is not the usual one.
        host: &'a str,
        /// What it did.
        what: &'a str,
    },
}

impl Event<'_> {
    /// Longest text of the sandbox's choosing in an event, in bytes.
    pub const MAX_TEXT: usize = 1024;
}

/// Cuts a text of the sandbox's choosing to what an event may hold.
pub(crate) fn shortened(text: &str) -> &str {
    let longest = text.len().min(Event::MAX_TEXT);
    let end = (0..=longest).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[..end]
}
