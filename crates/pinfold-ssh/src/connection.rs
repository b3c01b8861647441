//! One connection, from its first line to its end.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::SshError;
use crate::channel::{Channel, WINDOW};
use crate::exchange::{self, ECDH_INIT, KEXINIT, NEWKEYS, Said};
use crate::fields::Fields;
use crate::host_key::HostKey;
use crate::message::Message;
use crate::packet::{Incoming, Outgoing};
use crate::program::{Size, StartProgram, What};

const VERSION: &str = concat!("SSH-2.0-pinfold_", env!("CARGO_PKG_VERSION"));
/// Channels of one connection. OpenSSH opens at most ten by default (`MaxSessions`).
const MOST_CHANNELS: usize = 64;
/// The largest packet of data that is taken (RFC 4254, 5.1).
const LARGEST_DATA: u32 = 32 << 10;

const DISCONNECT: u8 = 1;
const IGNORE: u8 = 2;
const UNIMPLEMENTED: u8 = 3;
const DEBUG: u8 = 4;
const SERVICE_REQUEST: u8 = 5;
const SERVICE_ACCEPT: u8 = 6;
const EXT_INFO: u8 = 7;
const USERAUTH_REQUEST: u8 = 50;
const USERAUTH_FAILURE: u8 = 51;
const USERAUTH_SUCCESS: u8 = 52;
const GLOBAL_REQUEST: u8 = 80;
const REQUEST_FAILURE: u8 = 82;
const CHANNEL_OPEN: u8 = 90;
const OPEN_CONFIRMATION: u8 = 91;
const OPEN_FAILURE: u8 = 92;
pub(crate) const WINDOW_ADJUST: u8 = 93;
pub(crate) const CHANNEL_DATA: u8 = 94;
pub(crate) const EXTENDED_DATA: u8 = 95;
pub(crate) const CHANNEL_EOF: u8 = 96;
pub(crate) const CHANNEL_CLOSE: u8 = 97;
pub(crate) const CHANNEL_REQUEST: u8 = 98;
const CHANNEL_SUCCESS: u8 = 99;
const CHANNEL_FAILURE: u8 = 100;

/// Sends messages from several threads.
pub(crate) struct Sender {
    state: Mutex<SenderState>,
    changed: Condvar,
}

struct SenderState {
    outgoing: Outgoing<Box<dyn Write + Send>>,
    phase: Phase,
}

/// What may be sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Keys are being exchanged: nothing else is sent then (RFC 4253, 7.1).
    Exchanging,
    /// The client has gone.
    Over,
}

impl Sender {
    /// Sends a message, after an exchange of keys if there is one.
    pub(crate) fn send(&self, message: Message) -> Result<(), SshError> {
        let mut state = self.state.lock();
        while state.phase == Phase::Exchanging {
            self.changed.wait(&mut state);
        }
        if state.phase == Phase::Over {
            return Err(SshError::Io(io::ErrorKind::BrokenPipe.into()));
        }
        state.outgoing.packet(&message.0)
    }

    fn enter(&self, phase: Phase) {
        self.state.lock().phase = phase;
        self.changed.notify_all();
    }
}

/// Serves one client on two streams, until it has gone. Everything that it has started is ended then.
///
/// # Errors
/// Returns why the connection ended early.
pub fn serve(
    input: impl Read,
    output: impl Write + Send + 'static,
    host_key: &HostKey,
    start: &dyn StartProgram,
) -> Result<(), SshError> {
    let mut connection = Connection::new(input, output, host_key, start);
    let served = connection.greet().and_then(|()| connection.until_end());
    connection.end();
    served
}

struct Connection<'a, R> {
    incoming: Incoming<R>,
    sender: Arc<Sender>,
    host_key: &'a HostKey,
    start: &'a dyn StartProgram,
    client_version: Vec<u8>,
    /// The hash of the first exchange.
    session: Option<Vec<u8>>,
    is_strict: bool,
    /// Whether the client has asked for its login, which needs nothing.
    is_admitted: bool,
    channels: HashMap<u32, Channel>,
    next: u32,
}

impl<'a, R: Read> Connection<'a, R> {
    fn new(
        input: R,
        output: impl Write + Send + 'static,
        host_key: &'a HostKey,
        start: &'a dyn StartProgram,
    ) -> Self {
        let outgoing = Outgoing::new(Box::new(output) as Box<dyn Write + Send>);
        let state = Mutex::new(SenderState { outgoing, phase: Phase::Exchanging });
        Self {
            incoming: Incoming::new(input),
            sender: Arc::new(Sender { state, changed: Condvar::new() }),
            host_key,
            start,
            client_version: Vec::new(),
            session: None,
            is_strict: false,
            is_admitted: false,
            channels: HashMap::new(),
            next: 0,
        }
    }

    /// Exchanges versions.
    fn greet(&mut self) -> Result<(), SshError> {
        self.sender.state.lock().outgoing.raw(format!("{VERSION}\r\n").as_bytes())?;
        self.client_version = self.incoming.line()?;
        if self.client_version.starts_with(b"SSH-2.0-") {
            return Ok(());
        }
        Err(SshError::Malformed("no version of SSH 2.0"))
    }

    /// Ends what waits to send, which holds its channel, and then all that the client has started.
    fn end(self) {
        self.sender.enter(Phase::Over);
        for channel in self.channels.into_values() {
            channel.kill();
        }
    }

    fn until_end(&mut self) -> Result<(), SshError> {
        let Some(first) = self.incoming.packet()? else { return Ok(()) };
        if first.first() != Some(&KEXINIT) {
            return Err(SshError::Malformed("something else than its algorithms"));
        }
        self.exchange(&first)?;
        self.serve_messages()
    }

    fn serve_messages(&mut self) -> Result<(), SshError> {
        while let Some(message) = self.incoming.packet()? {
            let mut fields = Fields::new(&message);
            match fields.byte()? {
                DISCONNECT => return Ok(()),
                IGNORE | UNIMPLEMENTED | DEBUG | EXT_INFO => {}
                KEXINIT => self.exchange(&message)?,
                SERVICE_REQUEST => {
                    let service = fields.string()?;
                    self.sender.send(Message::of(SERVICE_ACCEPT).string(service))?;
                }
                USERAUTH_REQUEST => self.log_in(fields)?,
                kind @ GLOBAL_REQUEST..=CHANNEL_FAILURE if self.is_admitted => {
                    self.connected(kind, fields)?;
                }
                _ => {
                    let number = self.incoming.last_sequence();
                    self.sender.send(Message::of(UNIMPLEMENTED).number(number))?;
                }
            }
        }
        Ok(())
    }

    /// Exchanges keys, which the client has begun.
    fn exchange(&mut self, client_offer: &[u8]) -> Result<(), SshError> {
        self.sender.enter(Phase::Exchanging);
        let offer = exchange::read_offer(client_offer)?;
        let is_first = self.session.is_none();
        self.is_strict = if is_first { offer.is_strict } else { self.is_strict };
        let server_offer = exchange::own_offer()?;
        self.sender.state.lock().outgoing.packet(&server_offer)?;
        if offer.skips_one {
            self.expect(ECDH_INIT)?;
        }
        let init = self.expect(ECDH_INIT)?;
        let said = Said {
            client_version: &self.client_version,
            server_version: VERSION.as_bytes(),
            client_offer,
            server_offer: &server_offer,
        };
        let exchanged = exchange::exchange(&init, &said, self.host_key)?;
        let session = self.session.get_or_insert_with(|| exchanged.hash.clone());
        let (theirs, own) = exchanged.keys(session);
        let mut state = self.sender.state.lock();
        state.outgoing.packet(&exchanged.reply)?;
        state.outgoing.packet(&[NEWKEYS])?;
        state.outgoing.rekey(&own, self.is_strict);
        drop(state);
        self.expect(NEWKEYS)?;
        self.incoming.rekey(&theirs, self.is_strict);
        self.sender.enter(Phase::Open);
        Ok(())
    }

    /// Takes a message of an exchange of keys; no other may come then.
    fn expect(&mut self, kind: u8) -> Result<Vec<u8>, SshError> {
        const OTHER: SshError = SshError::Malformed("something else within an exchange of keys");
        let message = self.incoming.packet()?.ok_or(OTHER)?;
        if message.first() == Some(&kind) { Ok(message) } else { Err(OTHER) }
    }

    /// Admits a client that asks without credentials: only the user of this process has its streams.
    fn log_in(&mut self, mut fields: Fields<'_>) -> Result<(), SshError> {
        let (_user, service, method) = (fields.string()?, fields.string()?, fields.string()?);
        if service == b"ssh-connection" && method == b"none" {
            self.is_admitted = true;
            return self.sender.send(Message::of(USERAUTH_SUCCESS));
        }
        self.sender.send(Message::of(USERAUTH_FAILURE).string(b"none").flag(false))
    }

    fn connected(&mut self, kind: u8, mut fields: Fields<'_>) -> Result<(), SshError> {
        match kind {
            GLOBAL_REQUEST => {
                let (_name, wants_reply) = (fields.string()?, fields.flag()?);
                if wants_reply { self.sender.send(Message::of(REQUEST_FAILURE)) } else { Ok(()) }
            }
            CHANNEL_OPEN => self.open(fields),
            WINDOW_ADJUST | CHANNEL_DATA | EXTENDED_DATA | CHANNEL_EOF | CHANNEL_CLOSE
            | CHANNEL_REQUEST => {
                let id = fields.number()?;
                let Some(channel) = self.channels.get_mut(&id) else {
                    return Err(SshError::Malformed("something for a channel that is not open"));
                };
                match kind {
                    WINDOW_ADJUST => channel.widen(fields.number()?),
                    CHANNEL_DATA => channel.take(fields.string()?),
                    // There is no such stream towards a program.
                    EXTENDED_DATA => Ok(()),
                    CHANNEL_EOF => {
                        channel.end_input();
                        Ok(())
                    }
                    CHANNEL_CLOSE => {
                        if let Some(channel) = self.channels.remove(&id) {
                            channel.close();
                        }
                        Ok(())
                    }
                    _ => self.request(id, fields),
                }
            }
            // Answers to what is never asked for.
            _ => Ok(()),
        }
    }

    fn open(&mut self, mut fields: Fields<'_>) -> Result<(), SshError> {
        const PROHIBITED: u32 = 1;
        const SHORTAGE: u32 = 4;
        let (kind, theirs) = (fields.string()?, fields.number()?);
        let (window, largest) = (fields.number()?, fields.number()?);
        let refuse = |code, why: &str| {
            let message = Message::of(OPEN_FAILURE).number(theirs).number(code);
            self.sender.send(message.string(why.as_bytes()).string(b""))
        };
        if kind != b"session" {
            return refuse(PROHIBITED, "pinfold forwards nothing by ssh");
        }
        if self.channels.len() >= MOST_CHANNELS {
            return refuse(SHORTAGE, "too many channels");
        }
        let own = self.next;
        self.next = self.next.wrapping_add(1);
        let message = Message::of(OPEN_CONFIRMATION).number(theirs).number(own);
        self.sender.send(message.number(WINDOW).number(LARGEST_DATA))?;
        let largest = largest.min(LARGEST_DATA);
        self.channels.insert(own, Channel::new(theirs, window, largest, &self.sender));
        Ok(())
    }

    fn request(&mut self, id: u32, mut fields: Fields<'_>) -> Result<(), SshError> {
        let (kind, wants_reply) = (fields.string()?, fields.flag()?);
        let Some(channel) = self.channels.get_mut(&id) else { return Ok(()) };
        let is_done = match kind {
            b"pty-req" => {
                let term = fields.string()?.to_vec();
                let size = size(&mut fields)?;
                channel.set_terminal(term, size)
            }
            b"env" => channel.set_variable(fields.string()?, fields.string()?),
            b"window-change" => channel.resize(size(&mut fields)?),
            b"signal" => channel.signal(fields.string()?),
            b"shell" | b"exec" | b"subsystem" => {
                let what = match kind {
                    b"shell" => Some(What::Shell),
                    b"exec" => Some(What::Command(fields.string()?.to_vec())),
                    _ => (fields.string()? == b"sftp").then_some(What::Sftp),
                };
                let can_start = what.is_some() && channel.is_free();
                if wants_reply {
                    // Before the first byte of its output.
                    channel.answer(if can_start { CHANNEL_SUCCESS } else { CHANNEL_FAILURE })?;
                }
                return what
                    .filter(|_| can_start)
                    .map_or(Ok(()), |what| channel.start(what, self.start));
            }
            _ => false,
        };
        if wants_reply {
            channel.answer(if is_done { CHANNEL_SUCCESS } else { CHANNEL_FAILURE })?;
        }
        Ok(())
    }
}

/// Reads the size of a terminal in characters; the one in pixels follows it.
fn size(fields: &mut Fields<'_>) -> Result<Size, SshError> {
    let bounded = |number| u16::try_from(number).unwrap_or(u16::MAX);
    let columns = bounded(fields.number()?);
    let rows = bounded(fields.number()?);
    Ok(Size { rows, columns })
}

/// What the fuzz target and tests serve.
#[cfg(any(fuzzing, test))]
pub mod fuzzing {
    use std::io;

    use super::{Connection, HostKey, Phase, StartProgram};
    use crate::packet::Outgoing;

    /// Serves a client that has exchanged keys and logged in, with its messages in the clear.
    pub fn serve_messages<'m>(
        messages: impl IntoIterator<Item = &'m [u8]>,
        host_key: &HostKey,
        start: &dyn StartProgram,
    ) {
        let mut packets = Outgoing::new(Vec::new());
        for message in messages {
            let _ = packets.packet(message);
        }
        let mut connection = Connection::new(packets.written(), io::sink(), host_key, start);
        connection.is_admitted = true;
        connection.sender.enter(Phase::Open);
        let _ = connection.serve_messages();
        connection.end();
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::program::{Command, Started};

    struct NothingStarts;

    impl StartProgram for NothingStarts {
        fn start(&self, _: Command) -> io::Result<Started> {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    /// Found by the fuzz target: the error of a program that does not start waited for room that nobody could give.
    #[test]
    fn client_without_a_window_holds_nothing_up_when_no_program_starts() {
        let open = Message::of(CHANNEL_OPEN).string(b"session").number(5).number(0).number(1024);
        let exec = Message::of(CHANNEL_REQUEST).number(0).string(b"exec").flag(true);
        let exec = exec.string(b"true");
        let adjust = Message::of(WINDOW_ADJUST).number(0).number(1024);
        let close = Message::of(CHANNEL_CLOSE).number(0);
        assert_served([open, exec.clone(), exec, adjust, close].to_vec());
    }

    /// Found by the fuzz target: what waited to send held the channel that was to be ended.
    #[test]
    fn client_that_goes_in_an_exchange_of_keys_leaves_nothing_waiting() {
        let open = Message::of(CHANNEL_OPEN).string(b"session").number(5).number(9999).number(1024);
        let exec = |id| Message::of(CHANNEL_REQUEST).number(id).string(b"exec").flag(true);
        // Which threads are about to send something at that moment is chance.
        for _ in 0..100 {
            let started = (0..50).flat_map(|id| [open.clone(), exec(id).string(b"true")]);
            assert_served(started.chain([Message::of(KEXINIT)]).collect());
        }
    }

    /// Serves messages, and fails if that does not end.
    fn assert_served(messages: Vec<Message>) {
        let (sender, served) = mpsc::channel();
        std::thread::spawn(move || {
            let key = HostKey::read(&HostKey::generate().unwrap()).unwrap();
            let messages = messages.iter().map(|it| it.0.as_slice());
            fuzzing::serve_messages(messages, &key, &NothingStarts);
            sender.send(()).unwrap();
        });
        served.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
