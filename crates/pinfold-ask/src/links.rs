//! Links that answer a question once.
//!
//! What a link has of its question is 256 bits of chance. It counts as long as the question waits, and once. Only a
//! hash of it is kept.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use data_encoding::BASE64URL_NOPAD;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::approvals::{Answer, Approvals, Pending};

/// Who has answered, in the audit log.
const BY: &str = "link";

/// Why a link answers nothing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum LinkError {
    /// Its question was answered or has timed out, or never was asked.
    #[error("this link is for no question that waits: it was answered, or its time is over")]
    Unknown,
    /// The answer is not possible.
    #[error("{0}")]
    Answer(#[from] crate::approvals::AnswerError),
}

/// The links of one session.
pub(crate) struct Links {
    approvals: Arc<Approvals>,
    /// The hash of each token, with the number of its question.
    tokens: Mutex<HashMap<[u8; 32], u64>>,
    /// Where this session answers; 0 if it does not.
    port: AtomicU16,
}

impl Links {
    pub(crate) fn new(approvals: &Arc<Approvals>) -> Self {
        let (tokens, port) = (Mutex::default(), AtomicU16::new(0));
        Self { approvals: Arc::clone(approvals), tokens, port }
    }

    /// Returns a new token for a question; none where the system has no random bytes.
    pub(crate) fn token_for(&self, id: u64) -> Option<String> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let token = BASE64URL_NOPAD.encode(&bytes);
        let waiting: Vec<u64> = self.approvals.pending().iter().map(|one| one.id).collect();
        let mut tokens = self.tokens.lock();
        tokens.retain(|_, of| waiting.contains(of));
        tokens.insert(hash(&token), id);
        Some(token)
    }

    /// Returns the question of a link, or answers it.
    ///
    /// # Errors
    /// Returns an error for a link whose question does not wait, or an answer that is not possible.
    pub(crate) fn follow(
        &self,
        token: &str,
        answer: Option<Answer>,
    ) -> Result<Option<Pending>, LinkError> {
        let mut tokens = self.tokens.lock();
        let id = *tokens.get(&hash(token)).ok_or(LinkError::Unknown)?;
        let pending = self.approvals.pending().into_iter().find(|pending| pending.id == id);
        let pending = pending.ok_or(LinkError::Unknown)?;
        let Some(answer) = answer else { return Ok(Some(pending)) };
        self.approvals.answer(id, answer, BY)?;
        tokens.retain(|_, of| *of != id);
        Ok(None)
    }

    /// Answers at this port from now on.
    pub(crate) fn set_port(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    /// Returns where this session answers.
    pub(crate) fn port(&self) -> Option<u16> {
        Some(self.port.load(Ordering::Relaxed)).filter(|port| *port != 0)
    }

    /// Returns whether this session answers at a port.
    pub(crate) fn is_at(&self, port: u16) -> bool {
        self.port() == Some(port)
    }
}

fn hash(token: &str) -> [u8; 32] {
    let digest = digest(&SHA256, token.as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::approvals::{Subject, Terms};

    fn waiting(approvals: &Arc<Approvals>) -> u64 {
        let id = approvals.number();
        let (host, protocol) = ("example.com".to_owned(), "tls".to_owned());
        let subject = Subject::Connection { host, port: 443, protocol };
        let pending = Pending { id, subject, details: Vec::new(), rule: None };
        let terms = Terms { patience: Duration::from_secs(20), waits: true };
        let asking = Arc::clone(approvals);
        std::thread::spawn(move || asking.ask(pending, terms, || false));
        while !approvals.pending().iter().any(|one| one.id == id) {
            std::thread::yield_now();
        }
        id
    }

    #[test]
    fn link_answers_once_and_only_its_own_question() {
        let approvals = Arc::new(Approvals::default());
        let links = Links::new(&approvals);
        let (first, second) = (waiting(&approvals), waiting(&approvals));
        let token = links.token_for(first).unwrap();
        let other = links.token_for(second).unwrap();
        assert!(token.len() == 43 && token != other);
        assert_eq!(links.follow(&token, None).unwrap().unwrap().id, first);
        // Looking at it answers nothing: programs that preview links do that.
        assert_eq!(approvals.pending().len(), 2);
        assert_eq!(
            links.follow(&token, Some(Answer::Always)).err().map(|it| it.to_string()).as_deref(),
            Some("no rule can allow this and nothing more: approve it once, or for this session")
        );
        assert_eq!(links.follow(&token, Some(Answer::Once)), Ok(None));
        assert_eq!(links.follow(&token, Some(Answer::Once)), Err(LinkError::Unknown));
        assert_eq!(links.follow(&token, None), Err(LinkError::Unknown));
        let is_open = |id: u64| approvals.pending().iter().any(|one| one.id == id);
        assert!(!is_open(first) && is_open(second));
        approvals.end();
    }

    #[test]
    fn guessed_and_changed_tokens_are_for_no_question() {
        let approvals = Arc::new(Approvals::default());
        let links = Links::new(&approvals);
        let id = waiting(&approvals);
        let token = links.token_for(id).unwrap();
        let changed = format!("{}A", &token[..42]);
        for guess in
            ["", "1", &id.to_string(), &changed, &token.to_uppercase(), &format!("{token}=")]
        {
            if *guess != token {
                assert_eq!(
                    links.follow(guess, Some(Answer::Once)),
                    Err(LinkError::Unknown),
                    "{guess}"
                );
            }
        }
        assert_eq!(approvals.pending().len(), 1);
        approvals.answer(id, Answer::Deny { reason: None }, "ada").unwrap();
        assert_eq!(
            links.follow(&token, Some(Answer::Once)),
            Err(LinkError::Unknown),
            "it is settled"
        );
    }
}
