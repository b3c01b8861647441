//! QEMU's monitor: commands and events as lines of JSON (docs/interop/qmp-spec.rst of QEMU).

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use serde_json::{Value, json};

use super::error::QemuError;

/// How long QEMU or a guest that boots may say nothing.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the last message is waited for that comes when time is up.
const SHORTEST: Duration = Duration::from_millis(1);
/// The longest message in bytes.
const LONGEST: u64 = 64 << 10;
/// Messages that are read at most until the one that is waited for.
const MOST: usize = 1000;
/// The name by which QEMU knows the descriptor that it moves a machine through.
const DEVICES: &str = "devices";
/// The event of a guest that opens its port.
const OPENED: &str = "VSERPORT_CHANGE";
/// The id of the guest's port in events.
pub(super) const PORT: &str = "port";

/// A connection to the monitor.
#[derive(Debug)]
pub(super) struct Monitor {
    input: BufReader<UnixStream>,
    /// Events that came before they were waited for.
    events: Vec<Value>,
    /// When QEMU has to have said what is waited for, if it has less time than usual.
    deadline: Option<Instant>,
}

impl Monitor {
    /// Waits for the greeting, and has machines moved without their memory.
    ///
    /// # Errors
    /// Returns an error if QEMU ends, says nothing for long, or refuses.
    pub(super) fn open(connection: OwnedFd) -> Result<Self, QemuError> {
        let stream = UnixStream::from(connection);
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        let mut monitor =
            Self { input: BufReader::new(stream), events: Vec::new(), deadline: None };
        monitor.read()?;
        monitor.execute("qmp_capabilities", json!({}))?;
        let on = |name: &str| json!({ "capability": name, "state": true });
        // The memory is the file that both have. Without events there is nothing to wait for.
        let capabilities = json!([on("x-ignore-shared"), on("events")]);
        monitor.execute("migrate-set-capabilities", json!({ "capabilities": capabilities }))?;
        Ok(monitor)
    }

    /// Runs a guest that was started without, and waits until it has opened its port, or for so long.
    ///
    /// # Errors
    /// Returns an error if QEMU ends before, or stops the guest.
    pub(super) fn run_until_open(&mut self, patience: Option<Duration>) -> Result<(), QemuError> {
        self.deadline = patience.map(|patience| Instant::now() + patience);
        self.execute("cont", json!({}))?;
        self.await_event(OPENED, |data| data["id"] == PORT && data["open"] == true)?;
        self.deadline = None;
        self.input.get_ref().set_read_timeout(Some(PATIENCE)).map_err(failed)
    }

    /// Stops the guest, and returns the state of its devices.
    ///
    /// # Errors
    /// Returns an error if QEMU ends or cannot move the machine, or the state is larger than this.
    pub(super) fn take_devices(&mut self, most: u64) -> Result<Vec<u8>, QemuError> {
        let stream = self.pass_stream()?;
        self.execute("migrate", json!({ "uri": format!("fd:{DEVICES}") }))?;
        let mut devices = Vec::new();
        stream.take(most + 1).read_to_end(&mut devices).map_err(failed)?;
        self.await_moved()?;
        if devices.len() as u64 > most {
            return Err(QemuError::Monitor(format!("the devices have more than {most} bytes")));
        }
        Ok(devices)
    }

    /// Gives devices a state, and runs the guest.
    ///
    /// # Errors
    /// Returns an error if QEMU ends or refuses the state.
    pub(super) fn give_devices(&mut self, devices: &[u8]) -> Result<(), QemuError> {
        let mut stream = self.pass_stream()?;
        self.execute("migrate-incoming", json!({ "uri": format!("fd:{DEVICES}") }))?;
        let written = stream.write_all(devices);
        // Why it did not take all of them comes here.
        self.await_moved()?;
        written.map_err(failed)
    }

    /// Returns one end of a stream whose other end QEMU has.
    fn pass_stream(&mut self) -> Result<UnixStream, QemuError> {
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        ours.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        ours.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        self.send("getfd", json!({ "fdname": DEVICES }), Some(theirs.as_fd()))?;
        self.await_return()?;
        Ok(ours)
    }

    fn await_moved(&mut self) -> Result<(), QemuError> {
        let is_over = |data: &Value| data["status"] == "completed" || data["status"] == "failed";
        let data = self.await_event("MIGRATION", is_over)?;
        if data["status"] == "completed" {
            Ok(())
        } else {
            Err(QemuError::State("the machine cannot be moved".to_owned()))
        }
    }

    fn execute(&mut self, command: &str, arguments: Value) -> Result<(), QemuError> {
        self.send(command, arguments, None)?;
        self.await_return()
    }

    fn send(
        &mut self,
        command: &str,
        arguments: Value,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(), QemuError> {
        let mut line = json!({ "execute": command, "arguments": arguments }).to_string();
        line.push('\n');
        let descriptors = descriptor.as_slice();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let bytes = [std::io::IoSlice::new(line.as_bytes())];
        let socket = self.input.get_ref();
        let sent = rustix::net::sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL);
        let sent = sent.map_err(|errno| failed(errno.into()))?;
        self.input.get_mut().write_all(&line.as_bytes()[sent..]).map_err(failed)
    }

    fn await_return(&mut self) -> Result<(), QemuError> {
        for _ in 0..MOST {
            let message = self.read()?;
            if message.get("return").is_some() {
                return Ok(());
            }
            if let Some(said) = message["error"]["desc"].as_str() {
                return Err(QemuError::Monitor(said.to_owned()));
            }
            self.events.push(message);
        }
        Err(too_many())
    }

    /// Returns the data of the first event of a name that is the one.
    fn await_event(
        &mut self,
        name: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Value, QemuError> {
        for _ in 0..MOST {
            let message = if self.events.is_empty() { self.read()? } else { self.events.remove(0) };
            if message["event"] == name && is_it(&message["data"]) {
                return Ok(message["data"].clone());
            }
            // What KVM cannot execute stops a guest for good.
            if message["event"] == "STOP" && name == OPENED {
                return Err(QemuError::Monitor("the guest has stopped".to_owned()));
            }
        }
        Err(too_many())
    }

    fn read(&mut self) -> Result<Value, QemuError> {
        if let Some(deadline) = self.deadline {
            let left = deadline.saturating_duration_since(Instant::now()).max(SHORTEST);
            self.input.get_ref().set_read_timeout(Some(left)).map_err(failed)?;
        }
        let mut line = Vec::new();
        (&mut self.input).take(LONGEST).read_until(b'\n', &mut line).map_err(failed)?;
        serde_json::from_slice(&line).map_err(|_| {
            let what = if line.is_empty() { "it has ended" } else { "it says what is no message" };
            QemuError::Monitor(what.to_owned())
        })
    }
}

fn failed(error: std::io::Error) -> QemuError {
    let what = match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "it has ended".to_owned(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it says nothing in time".to_owned(),
        _ => error.to_string(),
    };
    QemuError::Monitor(what)
}

fn too_many() -> QemuError {
    QemuError::Monitor(format!("more than {MOST} messages"))
}

#[cfg(test)]
mod tests;
