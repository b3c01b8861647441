//! What the fuzz targets call: what comes from inside is read as the door reads it, and checked
//! against what must be true of it. Not in any build that serves.

use std::io;
use std::sync::{Arc, OnceLock};

use hickory_resolver::proto::op::{Message, MessageType};
use parking_lot::Mutex;
use pinfold_policy::network::{Endpoint, NetworkPolicy};
use pinfold_policy::origin::{Origin, Valued};

use super::ask::Leases;
use super::dns::Question;
use super::outward::{Head, parse_connect};
use super::patterns::Patterns;
use super::peek::Beginning;
use super::policy_handle::PolicyHandle;
use super::scrub::Scrubber;
use super::shared::Shared;
use super::vault::Vault;
use crate::gateway::{Event, Journal};
use crate::held::HeldBytes;
use crate::upstream::{Dns, WayOut};

/// A journal that keeps nothing.
struct Nothing;

impl Journal for Nothing {
    fn record(&self, _: &Event<'_>) -> io::Result<()> {
        Ok(())
    }
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| {
        let rules = ["web.example.com", "*.example.org:*"];
        let rule =
            |text: &str| text.parse().ok().map(|value| Valued { value, origin: Origin::Default });
        let allow = rules.into_iter().filter_map(rule).collect();
        let (handle, policy) = PolicyHandle::new(NetworkPolicy { allow, ..Default::default() });
        Shared {
            policy,
            leases: Leases::new(handle),
            doorkeeper: None,
            journal: Arc::new(Nothing),
            names: Mutex::default(),
            dns: Dns::default(),
            authority: None,
            vault: Vault::new(Vec::new()),
            way: WayOut::default(),
            tls: OnceLock::new(),
            held: HeldBytes::default(),
        }
    })
}

/// Checks that an answer that is given at once is sound, belongs to its question and has no address but the
/// machine's own.
///
/// # Panics
/// When it does not.
pub fn question(bytes: &[u8]) {
    let Some(question) = Question::read(bytes) else { return };
    let Ok(answer) = question.answer_at_once(shared()) else { return };
    assert!(answer.len() < 2048, "an answer of {} bytes", answer.len());
    let message = Message::from_vec(&answer).expect("an answer that can be read");
    assert_eq!(message.id().to_be_bytes(), bytes[..2]);
    assert_eq!(message.message_type(), MessageType::Response);
    for record in message.answers() {
        let address = record.data().ip_addr().expect("an address");
        assert!(address.is_loopback(), "{address}");
    }
}

/// Checks that what was seen stays true when more arrives.
///
/// # Panics
/// When it does not.
pub fn beginning(bytes: &[u8]) {
    let whole = Beginning::of(bytes);
    for end in (0..bytes.len()).take(600) {
        match Beginning::of(&bytes[..end]) {
            Beginning::Unclear => {}
            // What follows a hello may break it, and is refused then.
            Beginning::Tls(_) if whole == Beginning::BrokenTls => {}
            prefix => assert_eq!(prefix, whole, "{end} bytes of {}", bytes.escape_ascii()),
        }
    }
}

/// Checks that a tunnel is asked for to a host that has one form.
///
/// # Panics
/// When it has not.
pub fn connect(bytes: &[u8]) {
    if let Head::Connect(length, asked) = parse_connect(bytes) {
        assert!(length <= bytes.len());
        assert_eq!(Endpoint::parse(&asked.to_string(), None).as_ref(), Ok(&asked));
    }
}

/// Checks that no pattern is left in a stream as it is, however it is cut, unless what stands instead makes one.
///
/// # Panics
/// When one is.
pub fn scrub(patterns: &[&[u8]], text: &[u8], cuts: &[u8]) {
    let mut all = Patterns::default();
    let patterns: Vec<_> =
        patterns.iter().filter_map(|pattern| std::str::from_utf8(pattern).ok()).collect();
    patterns.iter().for_each(|pattern| all.add_secret(pattern, "\n"));
    let is_within = |part: &[u8], pattern: &str| {
        !pattern.is_empty() && memchr::memmem::find(part, pattern.as_bytes()).is_some()
    };
    let is_left = |clean: &[u8]| {
        let mut parts = clean.split(|byte| *byte == b'\n');
        parts.any(|part| patterns.iter().any(|pattern| is_within(part, pattern)))
    };
    assert!(!is_left(&all.scrub(text)), "{}", text.escape_ascii());
    let mut scrubber = Scrubber::of(all);
    let (mut clean, mut rest) = (Vec::new(), text);
    for cut in cuts.iter().chain(std::iter::repeat(&255)).take(text.len() + 1) {
        let (chunk, after) = rest.split_at(rest.len().min(usize::from(*cut)));
        clean.extend(scrubber.push(chunk));
        rest = after;
    }
    clean.extend(scrubber.push(rest));
    clean.extend(scrubber.finish());
    assert!(!is_left(&clean), "{}", text.escape_ascii());
}
