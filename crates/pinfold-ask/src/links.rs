//! Links that answer a question once.
//!
//! A link has 256 bits of chance, and stands for one answer to one question. It counts as long as the question waits,
//! and once. Only a hash of it is kept.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use data_encoding::BASE64URL_NOPAD;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};

use crate::approvals::{Answer, Approvals, Counted, Pending};

/// Who has answered, in the audit log.
const BY: &str = "link";

/// The error for a link that answers nothing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("this link is for no question that waits: it was answered, or its time is over")]
pub(crate) struct LinkError;

/// What is done with a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Visit {
    /// Its question is shown, with this answer to give.
    Look(Answer),
    /// Its question is answered.
    Give(Answer),
}

/// What a link leads to.
#[derive(Debug)]
pub(crate) enum Followed {
    Question(Pending),
    /// The answer counts; nothing is held of one to another session.
    Answer(Option<Counted>),
}

/// What a link is for.
#[derive(Debug, Clone, Copy)]
struct Purpose {
    /// The number of its question.
    id: u64,
    /// Which answer it gives, apart from the reason of a denial.
    answer: Discriminant<Answer>,
}

/// The links of one session.
pub(crate) struct Links {
    approvals: Arc<Approvals>,
    /// The hash of each token.
    tokens: Mutex<HashMap<[u8; 32], Purpose>>,
    /// Where this session answers; 0 if it does not.
    port: AtomicU16,
}

impl Visit {
    /// Returns the answer that it is about.
    pub(crate) fn answer(&self) -> &Answer {
        match self {
            Self::Look(answer) | Self::Give(answer) => answer,
        }
    }
}

impl Links {
    pub(crate) fn new(approvals: &Arc<Approvals>) -> Self {
        let (tokens, port) = (Mutex::default(), AtomicU16::new(0));
        Self { approvals: Arc::clone(approvals), tokens, port }
    }

    /// Returns a new token for an answer to a question; none where the system has no random bytes.
    pub(crate) fn token_for(&self, id: u64, answer: &Answer) -> Option<String> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).ok()?;
        let token = BASE64URL_NOPAD.encode(&bytes);
        let waiting: Vec<u64> = self.approvals.pending().iter().map(|one| one.id).collect();
        let mut tokens = self.tokens.lock();
        tokens.retain(|_, of| waiting.contains(&of.id));
        tokens.insert(hash(&token), Purpose { id, answer: discriminant(answer) });
        Some(token)
    }

    /// Returns the question of a link, or answers it.
    ///
    /// # Errors
    /// Returns an error for a link whose question does not wait, or that is for another answer.
    pub(crate) fn follow(&self, token: &str, visit: Visit) -> Result<Followed, LinkError> {
        let mut tokens = self.tokens.lock();
        let Purpose { id, answer } = *tokens.get(&hash(token)).ok_or(LinkError)?;
        if answer != discriminant(visit.answer()) {
            return Err(LinkError);
        }
        let pending = self.approvals.pending().into_iter().find(|pending| pending.id == id);
        let pending = pending.ok_or(LinkError)?;
        let Visit::Give(answer) = visit else { return Ok(Followed::Question(pending)) };
        let counted = self.approvals.answer(id, answer, BY).map_err(|_| LinkError)?;
        tokens.retain(|_, of| of.id != id);
        Ok(Followed::Answer(Some(counted)))
    }

    /// Makes all links that were sent so far worth nothing.
    pub(crate) fn revoke(&self) {
        self.tokens.lock().clear();
    }

    /// Answers at this port from now on.
    pub(crate) fn set_port(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    /// Returns whether this session answers at a port.
    pub(crate) fn is_at(&self, port: u16) -> bool {
        port != 0 && self.port.load(Ordering::Relaxed) == port
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

    /// Has a question wait, to which each answer is possible.
    fn waiting(approvals: &Arc<Approvals>) -> u64 {
        let id = approvals.number();
        let (host, protocol) = ("example.com".to_owned(), "tls".to_owned());
        let subject = Subject::Connection { host, port: 443, protocol };
        let pending = Pending { id, subject, details: Vec::new(), rule: Some("it".to_owned()) };
        let terms = Terms { patience: Duration::from_secs(20), waits: true };
        let asking = Arc::clone(approvals);
        std::thread::spawn(move || asking.ask(pending, terms, || false));
        while !approvals.pending().iter().any(|one| one.id == id) {
            std::thread::yield_now();
        }
        id
    }

    fn is_open(approvals: &Approvals, id: u64) -> bool {
        approvals.pending().iter().any(|one| one.id == id)
    }

    #[test]
    fn link_answers_once_and_only_its_own_question() {
        let approvals = Arc::new(Approvals::default());
        let links = Links::new(&approvals);
        let (first, second) = (waiting(&approvals), waiting(&approvals));
        let token = links.token_for(first, &Answer::Once).unwrap();
        let other = links.token_for(second, &Answer::Once).unwrap();
        assert!(token.len() == 43 && token != other);
        let looked = links.follow(&token, Visit::Look(Answer::Once)).unwrap();
        assert!(matches!(looked, Followed::Question(pending) if pending.id == first));
        // Looking at it answers nothing: programs that preview links do that.
        assert_eq!(approvals.pending().len(), 2);
        assert!(links.follow(&token, Visit::Give(Answer::Once)).is_ok());
        for again in [Visit::Give(Answer::Once), Visit::Look(Answer::Once)] {
            assert_eq!(links.follow(&token, again).err(), Some(LinkError));
        }
        assert!(!is_open(&approvals, first) && is_open(&approvals, second));
        approvals.end();
    }

    /// A link to a denial, in the log of a program that shows it, approves nothing.
    #[test]
    fn link_gives_its_own_answer_alone() {
        let approvals = Arc::new(Approvals::default());
        let links = Links::new(&approvals);
        let id = waiting(&approvals);
        let deny = Answer::Deny { reason: None };
        let all = [Answer::Once, Answer::Session, Answer::Always, deny];
        for own in &all {
            let token = links.token_for(id, own).unwrap();
            for other in all.iter().filter(|other| *other != own) {
                for visit in [Visit::Look(other.clone()), Visit::Give(other.clone())] {
                    assert_eq!(links.follow(&token, visit).err(), Some(LinkError));
                }
            }
            assert!(links.follow(&token, Visit::Look(own.clone())).is_ok());
        }
        assert!(is_open(&approvals, id));
        let token = links.token_for(id, &all[3]).unwrap();
        let reason = Answer::Deny { reason: Some("not now".to_owned()) };
        assert!(links.follow(&token, Visit::Give(reason)).is_ok());
    }

    #[test]
    fn guessed_changed_and_revoked_tokens_are_for_no_question() {
        let approvals = Arc::new(Approvals::default());
        let links = Links::new(&approvals);
        let id = waiting(&approvals);
        let token = links.token_for(id, &Answer::Once).unwrap();
        let changed = format!("{}A", &token[..42]);
        let give = |token: &str| links.follow(token, Visit::Give(Answer::Once)).err();
        for guess in
            ["", "1", &id.to_string(), &changed, &token.to_uppercase(), &format!("{token}=")]
        {
            if *guess != token {
                assert_eq!(give(guess), Some(LinkError), "{guess}");
            }
        }
        let revoked = links.token_for(id, &Answer::Once).unwrap();
        links.revoke();
        assert_eq!(give(&revoked), Some(LinkError));
        assert_eq!(approvals.pending().len(), 1);
        let settled = links.token_for(id, &Answer::Once).unwrap();
        drop(approvals.answer(id, Answer::Deny { reason: None }, "ada").unwrap());
        assert_eq!(give(&settled), Some(LinkError));
    }
}
