//! Names, as programs inside ask for them.
//!
//! Only names that some rule allows are looked up outside, only for addresses, and the answer is
//! synthetic; so nothing can be sent or fetched in questions and answers. `AAAA` and everything
//! else of a known name is answered empty: `HTTPS` and `SVCB` (RFC 9460) would otherwise lead to
//! other names, to HTTP/3 and to encrypted server names.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_resolver::proto::rr::rdata::opt::EdnsOption;
use hickory_resolver::proto::rr::rdata::{A, AAAA};
use hickory_resolver::proto::rr::{DNSClass, Name, RData, Record, RecordType};
use pinfold_policy::network::{Endpoint, Host, HostName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use super::shared::Shared;

/// Seconds for which a program may keep an answer. The address stays the same for longer.
const TIME_TO_LIVE: u32 = 60;

/// Bytes of the largest question that is read, and what is offered in EDNS.
const LARGEST: u16 = 1232;

/// Questions that are looked up outside at once; more are answered "try again".
const LOOKUPS: usize = 256;

/// How long a connection may wait for its next question (RFC 7766, 6.2.3).
const IDLE: Duration = Duration::from_secs(10);

/// Pause after the system could not give a question.
const PAUSE: Duration = Duration::from_millis(10);

/// "Blocked", of the extended errors (RFC 8914, 4.16).
const BLOCKED: u16 = 15;

/// "Other error" (RFC 8914, 4.1).
const OTHER: u16 = 0;

/// Answers datagrams until the runtime ends.
pub(super) async fn serve_udp(socket: UdpSocket, shared: Arc<Shared>) {
    let socket = Arc::new(socket);
    let lookups = Arc::new(Semaphore::new(LOOKUPS));
    let mut buffer = [0; LARGEST as usize];
    loop {
        let Ok((length, asker)) = socket.recv_from(&mut buffer).await else {
            // A lack of memory passes, and must not be waited for in a circle.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let answered = || Some(Question::read(&buffer[..length])?.answer_at_once(&shared));
        // A question that breaks us gets no answer, and is the only one.
        let Ok(Some(answered)) = catch_unwind(AssertUnwindSafe(answered)) else { continue };
        let question = match answered {
            Ok(answer) => {
                // UDP: an answer that does not arrive is asked for again.
                let _ = socket.try_send_to(&answer, asker);
                continue;
            }
            Err(question) => question,
        };
        let Ok(place) = Arc::clone(&lookups).try_acquire_owned() else {
            let _ = socket.try_send_to(&question.failed("too many lookups at once"), asker);
            continue;
        };
        let (socket, shared) = (Arc::clone(&socket), Arc::clone(&shared));
        tokio::spawn(async move {
            let answer = question.look_up(&shared).await;
            let _ = socket.send_to(&answer, asker).await;
            drop(place);
        });
    }
}

/// Answers questions on a connection, one after the other (RFC 7766).
pub(super) async fn serve_tcp(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    loop {
        let length = tokio::time::timeout(IDLE, stream.read_u16()).await??;
        if length > LARGEST {
            return Ok(());
        }
        let mut buffer = vec![0; usize::from(length)];
        tokio::time::timeout(IDLE, stream.read_exact(&mut buffer)).await??;
        let Some(question) = Question::read(&buffer) else { return Ok(()) };
        let answer = match question.answer_at_once(shared) {
            Ok(answer) => answer,
            Err(question) => question.look_up(shared).await,
        };
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes(), answer.as_slice()].concat()).await?;
    }
}

/// A question, with the beginning of its answer.
pub(super) struct Question {
    answer: Message,
    /// What is asked for, if it can be answered at all.
    asked: Option<(Name, RecordType)>,
}

impl Question {
    /// Reads a question; `None` for what deserves no answer.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let message = match Message::from_vec(bytes) {
            Ok(message) => message,
            Err(_) => return malformed(bytes),
        };
        if message.message_type() != MessageType::Query {
            return None;
        }
        let mut answer = Message::new();
        answer.set_id(message.id()).set_message_type(MessageType::Response);
        answer.set_op_code(message.op_code()).set_recursion_available(true);
        answer.set_recursion_desired(message.recursion_desired());
        if message.extensions().is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(LARGEST);
            answer.set_edns(edns);
        }
        let asked = match (message.op_code(), message.queries()) {
            (OpCode::Query, [query]) => {
                answer.add_query(query.clone());
                asked(query).map_err(|code| answer.set_response_code(code)).ok()
            }
            (OpCode::Query, _) => {
                answer.set_response_code(ResponseCode::FormErr);
                None
            }
            _ => {
                answer.set_response_code(ResponseCode::NotImp);
                None
            }
        };
        Some(Self { answer, asked })
    }

    /// Answers what needs no lookup outside.
    ///
    /// # Errors
    /// Returns an error for the question again, if it needs one.
    pub(super) fn answer_at_once(mut self, shared: &Shared) -> Result<Vec<u8>, Box<Self>> {
        let Some((name, kind)) = self.asked.take() else { return Ok(self.written()) };
        let Ok(host) = name.to_ascii().parse::<HostName>() else {
            return Ok(self.refused(ResponseCode::NXDomain, None));
        };
        if host.is_localhost() {
            return Ok(self.localhost(&name, kind));
        }
        let is_asked = shared.doorkeeper.as_ref().is_some_and(|it| it.knows(&host));
        if !shared.policy().knows(&host) && !is_asked {
            if matches!(kind, RecordType::A | RecordType::AAAA) {
                let asked = Endpoint::new(Host::Name(host), 443);
                let why = shared
                    .policy()
                    .decide(&asked)
                    .err()
                    .map(|refused| shared.refuse(refused, None).to_string());
                return Ok(self.refused(ResponseCode::NXDomain, why.as_deref()));
            }
            return Ok(self.refused(ResponseCode::NXDomain, None));
        }
        if kind != RecordType::A {
            return Ok(self.written());
        }
        self.asked = Some((name, kind));
        Err(Box::new(self))
    }

    /// Looks a known name up and answers with its synthetic address.
    pub(super) async fn look_up(mut self, shared: &Shared) -> Vec<u8> {
        let Some((name, _)) = self.asked.take() else { return self.written() };
        let Ok(host) = name.to_ascii().parse::<HostName>() else { return self.written() };
        // About other names the user is asked first, and nothing of them leaves.
        if shared.policy().knows(&host)
            && let Err(missing) = shared.exists(&host).await
        {
            return self.refused(missing.code, Some(&missing.why));
        }
        let address = shared.names().address_of(&host);
        match address {
            Some(address) => {
                self.answer.add_answer(Record::from_rdata(
                    name,
                    TIME_TO_LIVE,
                    RData::A(A(address)),
                ));
                self.written()
            }
            None => self.failed("this session has asked for too many names"),
        }
    }

    fn localhost(mut self, name: &Name, kind: RecordType) -> Vec<u8> {
        let data = match kind {
            RecordType::A => Some(RData::A(A::new(127, 0, 0, 1))),
            RecordType::AAAA => Some(RData::AAAA(AAAA::new(0, 0, 0, 0, 0, 0, 0, 1))),
            _ => None,
        };
        if let Some(data) = data {
            self.answer.add_answer(Record::from_rdata(name.clone(), TIME_TO_LIVE, data));
        }
        self.written()
    }

    /// Returns the answer "try again", with the reason.
    fn failed(self, why: &str) -> Vec<u8> {
        self.refused(ResponseCode::ServFail, Some(why))
    }

    fn refused(mut self, code: ResponseCode, why: Option<&str>) -> Vec<u8> {
        self.answer.set_response_code(code);
        if let (Some(edns), Some(why)) = (self.answer.extensions_mut().as_mut(), why) {
            let info = if code == ResponseCode::NXDomain { BLOCKED } else { OTHER };
            let mut option = info.to_be_bytes().to_vec();
            option.extend_from_slice(why.as_bytes());
            option.truncate(512);
            edns.options_mut().insert(EdnsOption::Unknown(15, option));
        }
        self.written()
    }

    fn written(self) -> Vec<u8> {
        // Only what was read is written back, so it can be written.
        self.answer.to_vec().unwrap_or_default()
    }
}

fn asked(query: &Query) -> Result<(Name, RecordType), ResponseCode> {
    if query.query_class() != DNSClass::IN {
        return Err(ResponseCode::Refused);
    }
    match query.query_type() {
        RecordType::ANY | RecordType::AXFR | RecordType::IXFR => Err(ResponseCode::Refused),
        kind => Ok((query.name().clone(), kind)),
    }
}

/// Returns the answer to something that is no sound question, if it has at least a question's header.
fn malformed(bytes: &[u8]) -> Option<Question> {
    const HEADER: usize = 12;
    const IS_ANSWER: u8 = 0x80;
    let header = bytes.first_chunk::<HEADER>().filter(|header| header[2] & IS_ANSWER == 0)?;
    let mut answer = Message::new();
    answer.set_id(u16::from_be_bytes([header[0], header[1]]));
    answer.set_message_type(MessageType::Response);
    answer.set_response_code(ResponseCode::FormErr);
    Some(Question { answer, asked: None })
}

/// Why a name that may be reached has no address.
struct Missing {
    code: ResponseCode,
    why: String,
}

impl Shared {
    /// Checks that a name leads anywhere. Behind a proxy only the proxy knows.
    async fn exists(&self, name: &HostName) -> Result<(), Missing> {
        let host = Host::Name(name.clone());
        let proxies = &self.way.proxies;
        if host.is_this_machine() {
            return Ok(());
        }
        if proxies.tunnel_to(&host).is_some() || proxies.request_to(&host).is_some() {
            return Ok(());
        }
        match self.dns.clone().resolve(name.as_str().to_owned()).await {
            Ok(_) => Ok(()),
            Err(failure) => {
                let code = if failure.is_no_such_name() {
                    ResponseCode::NXDomain
                } else {
                    ResponseCode::ServFail
                };
                Err(Missing { code, why: failure.to_string() })
            }
        }
    }
}
