//! The command's standard streams: descriptors that were handed in, or a terminal of its own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use pinfold_wire::{Attributes, Channel, StreamEnd, Window};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{InputModes, OptionalActions, Winsize};

use crate::gvisor;

/// One standard stream.
#[derive(Debug)]
enum End {
    /// The sandbox's own terminal.
    Terminal,
    /// This descriptor.
    Descriptor(OwnedFd),
    /// The same as an earlier stream.
    Same(usize),
}

/// Input, output and error output.
#[derive(Debug)]
pub struct Streams {
    ends: [End; 3],
    window: Option<Window>,
    attributes: Option<Attributes>,
    /// Through which the terminal is used, if it cannot be handed out.
    line: Option<OwnedFd>,
    /// What the command has besides them.
    further: Option<OwnedFd>,
}

/// A terminal inside: the side that the supervisor holds, and the side of the command.
pub(crate) struct Terminal {
    pub(crate) controller: OwnedFd,
    pub(crate) user: OwnedFd,
}

impl Streams {
    /// Puts the descriptors that came along where they belong.
    ///
    /// # Errors
    /// Returns `EMFILE` for fewer than the streams ask for, which is how those are lost that could not be handed
    /// over; `EINVAL` for more.
    pub fn new(wanted: pinfold_wire::Streams, descriptors: Vec<OwnedFd>) -> Result<Self, Errno> {
        let mut descriptors = descriptors.into_iter();
        let mut end = |end| match end {
            StreamEnd::Terminal => Ok(End::Terminal),
            StreamEnd::Descriptor => descriptors.next().map(End::Descriptor).ok_or(Errno::MFILE),
            StreamEnd::Same(earlier) => Ok(End::Same(earlier.into())),
        };
        let [input, output, error] = wanted.ends;
        let ends = [end(input)?, end(output)?, end(error)?];
        let pinfold_wire::Streams { window, attributes, is_relayed, has_further, .. } = wanted;
        let mut one =
            |is_there: bool| is_there.then(|| descriptors.next().ok_or(Errno::MFILE)).transpose();
        let (further, line) = (one(has_further)?, one(is_relayed)?);
        match descriptors.next() {
            None => Ok(Self { ends, window, attributes, line, further }),
            Some(_) => Err(Errno::INVAL),
        }
    }

    /// Takes the channel through which the terminal is used, if it cannot be handed out; once.
    pub(crate) fn take_line(&mut self) -> Option<Channel> {
        self.line.take().map(Channel::from)
    }

    /// Returns those that were handed in.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let ends = self.ends.iter().filter_map(|end| match end {
            End::Descriptor(fd) => Some(fd.as_fd()),
            End::Terminal | End::Same(_) => None,
        });
        ends.chain(self.further())
    }

    /// Returns the descriptor that the command has besides its streams.
    pub(crate) fn further(&self) -> Option<BorrowedFd<'_>> {
        self.further.as_ref().map(OwnedFd::as_fd)
    }

    /// Returns the descriptor of one stream.
    pub(crate) fn descriptor<'a>(
        &'a self,
        index: usize,
        terminal: Option<&'a Terminal>,
    ) -> Result<BorrowedFd<'a>, Errno> {
        match &self.ends[index] {
            End::Terminal => terminal.map(|terminal| terminal.user.as_fd()).ok_or(Errno::NOTTY),
            End::Descriptor(fd) => Ok(fd.as_fd()),
            End::Same(earlier) if *earlier < index => self.descriptor(*earlier, terminal),
            End::Same(_) => Err(Errno::INVAL),
        }
    }
}

impl Terminal {
    /// Opens the one that these streams ask for, if they do, on the sandbox's own devpts or the machine's.
    ///
    /// # Errors
    /// Returns what pts(4), termios(3) and ioctl_tty(2) say.
    pub(crate) fn open(streams: &Streams) -> Result<Option<Self>, Errno> {
        if !streams.ends.iter().any(|end| matches!(end, End::Terminal)) {
            return Ok(None);
        }
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |path| rustix::fs::open(path, flags, Mode::empty());
        let controller = match open("/dev/pts/ptmx") {
            // Nobody may use this name on a machine's own devpts (`ptmxmode`, mount(8)).
            Err(Errno::ACCESS) => open("/dev/ptmx")?,
            opened => opened?,
        };
        rustix::pty::unlockpt(&controller)?;
        let user = gvisor::open_user_side(&controller)?;
        let mut settings = rustix::termios::tcgetattr(&controller)?;
        match streams.attributes {
            Some(attributes) => attributes.apply(&mut settings),
            // What erases a character erases all of its bytes.
            None => settings.input_modes.insert(InputModes::IUTF8),
        }
        rustix::termios::tcsetattr(&controller, OptionalActions::Now, &settings)?;
        if let Some(window) = streams.window {
            set_window(&controller, window)?;
        }
        Ok(Some(Self { controller, user }))
    }
}

/// Says how large a terminal is.
///
/// # Errors
/// Returns the error of `ioctl_tty(2)`.
pub(crate) fn set_window(controller: &OwnedFd, (rows, columns): Window) -> Result<(), Errno> {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(controller, size)
}

/// Leads a session of its own from now on, with this as its controlling terminal. The command gets a
/// process group of its own in it, so that job control signals find a parent in the same session and
/// are not dropped.
///
/// # Errors
/// Returns the error of `setsid(2)` and `ioctl_tty(2)`.
pub(crate) fn lead_session(terminal: Option<&Terminal>) -> Result<(), Errno> {
    // An engine may have started this process so.
    if gvisor::new_session().is_err() && rustix::process::getsid(None)? != rustix::process::getpid()
    {
        return Err(Errno::PERM);
    }
    match terminal {
        Some(terminal) => rustix::process::ioctl_tiocsctty(&terminal.user),
        None => Ok(()),
    }
}
