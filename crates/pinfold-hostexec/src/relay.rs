//! Carries the streams of a program on the host to and from a client inside, at the speed of the
//! slower one.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use pinfold_host::io::{small_thread, timespec};
use pinfold_wire::{Call, Ended, Frames, MAX_DATA, Reply};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::client::{Client, Parted};

/// How a program on the host ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relayed {
    /// The program ended by itself.
    Ended(Ended),
    /// Its time was over.
    TimedOut,
    /// Who asked for it has gone.
    Left,
}

/// Sees a program to its end. One whose time is over, or whose client has gone, is asked to end
/// (SIGTERM), which its minder does for everything that it has started. Of a minder that is killed
/// itself (for want of memory, by its user) the program and its group are ended here.
///
/// # Errors
/// Returns what poll(2), waitid(2) and starting a thread say.
pub(crate) fn relay(
    mut child: Child,
    client: &Client,
    frames: Frames,
    deadline: Instant,
) -> io::Result<Relayed> {
    let pid = Pid::from_child(&child);
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let input = child.stdin.take().map(OwnedFd::from);
    let feeding = match input {
        Some(input) => {
            let client = client.clone();
            Some(small_thread("host-exec", move || feed(&client, frames, input))?)
        }
        None => None,
    };
    let outputs = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
    let cut = Relay { client, process: &process, pid, outputs, deadline }.until_end();
    if cut.is_err() {
        end(&process);
        end_group(pid);
    }
    let status = child.wait()?;
    let carried = match cut {
        Ok(()) => Relayed::Ended(ended(status)),
        Err(Parted::Late) => Relayed::TimedOut,
        Err(Parted::Gone | Parted::Nonsense) => Relayed::Left,
    };
    Ok(match feeding {
        None => carried,
        Some(feeding) => {
            // It stands at the client's next words, of which there are none that count.
            client.stop_hearing();
            // A panic in it has been reported by its own thread.
            let _ = feeding.join();
            carried
        }
    })
}

/// Asks a process to end, and what does not within a time is killed.
fn end(process: &OwnedFd) {
    /// More than a minder needs.
    const PATIENCE: Duration = Duration::from_secs(10);
    // One that has just ended needs no signal.
    let _ = rustix::process::pidfd_send_signal(process, Signal::TERM);
    let mut ended = [PollFd::new(process, PollFlags::IN)];
    let patience = timespec(PATIENCE);
    let ended = rustix::io::retry_on_intr(|| rustix::event::poll(&mut ended, Some(&patience)));
    if ended != Ok(1) {
        let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
    }
}

/// Kills what a minder that was killed itself has left of its group. It has not been waited for, so the
/// number is its own still.
fn end_group(minder: Pid) {
    let _ = rustix::process::kill_process_group(minder, Signal::KILL);
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code as u8),
        (None, signal) => Ended::Signal(signal.unwrap_or(libc::SIGKILL) as u8),
    }
}

/// Hands the client's input on until it ends. A client that talks nonsense is parted with, which
/// ends the program.
fn feed(client: &Client, mut frames: Frames, input: OwnedFd) {
    let mut input = Some(File::from(input));
    loop {
        match client.call(&mut frames, None) {
            // A program that does not read its input may still do its work.
            Ok(Some(Call::Input(data))) if data.len() <= MAX_DATA => {
                input = input.filter(|mut input| input.write_all(&data).is_ok());
            }
            Ok(Some(Call::InputEnd)) => input = None,
            Ok(None) => return,
            Ok(Some(_)) | Err(_) => return client.part(),
        }
    }
}

struct Relay<'a> {
    client: &'a Client,
    process: &'a OwnedFd,
    pid: Pid,
    outputs: [Option<OwnedFd>; 2],
    deadline: Instant,
}

impl Relay<'_> {
    /// Relays until the program has ended and everything it wrote was passed on.
    fn until_end(mut self) -> Result<(), Parted> {
        let mut is_over = false;
        let mut buffer = vec![0; MAX_DATA];
        while !is_over || self.outputs.iter().any(Option::is_some) {
            let ready = self.wait(is_over)?;
            for (index, is_ready) in ready.outputs.into_iter().enumerate() {
                let Some(output) = self.outputs[index].as_ref().filter(|_| is_ready) else {
                    continue;
                };
                match rustix::io::read(output, &mut buffer[..]) {
                    Ok(0) => self.outputs[index] = None,
                    Ok(count) => {
                        let data = buffer[..count].to_vec();
                        let reply =
                            if index == 0 { Reply::Output(data) } else { Reply::Errors(data) };
                        self.client.say(&reply, self.deadline)?;
                    }
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(_) => self.outputs[index] = None,
                }
            }
            if ready.ended {
                // What is left holds the outputs open.
                end_group(self.pid);
                is_over = true;
            }
        }
        Ok(())
    }

    fn wait(&self, is_over: bool) -> Result<Ready, Parted> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let mut wanted = vec![self.client.until_gone()];
        if !is_over {
            wanted.push(PollFd::new(self.process, PollFlags::IN));
        }
        let first = wanted.len();
        let open = self.outputs.iter().flatten();
        wanted.extend(open.map(|output| PollFd::new(output, PollFlags::IN)));
        match rustix::event::poll(&mut wanted, Some(&timespec(left))) {
            Ok(0) => return Err(Parted::Late),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Err(Parted::Gone),
        }
        let is = |index: usize| wanted.get(index).is_some_and(|it| !it.revents().is_empty());
        if is(0) {
            return Err(Parted::Gone);
        }
        let mut next = first;
        let mut outputs = [false; 2];
        for (output, is_ready) in self.outputs.iter().zip(&mut outputs) {
            if output.is_some() {
                *is_ready = is(next);
                next += 1;
            }
        }
        Ok(Ready { ended: !is_over && is(1), outputs })
    }
}

struct Ready {
    ended: bool,
    outputs: [bool; 2],
}
