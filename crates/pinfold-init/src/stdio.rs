//! The command's standard streams: descriptors that were handed in, or a terminal of its own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use pinfold_wire::StreamEnd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

/// One standard stream.
#[derive(Debug)]
pub enum End {
    /// The inside's own terminal.
    Terminal,
    /// This descriptor.
    Descriptor(OwnedFd),
    /// The same as an earlier stream.
    Same(usize),
}

/// Input, output and error output.
#[derive(Debug)]
pub struct Streams {
    /// The three ends.
    pub ends: [End; 3],
    /// Rows and columns of the terminal.
    pub window: Option<(u16, u16)>,
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
    /// `EMFILE` for fewer than the streams ask for, which is how those are lost for which a process has no
    /// room; `EINVAL` for more.
    pub fn new(wanted: pinfold_wire::Streams, descriptors: Vec<OwnedFd>) -> Result<Self, Errno> {
        let mut descriptors = descriptors.into_iter();
        let mut end = |end| match end {
            StreamEnd::Terminal => Ok(End::Terminal),
            StreamEnd::Descriptor => descriptors.next().map(End::Descriptor).ok_or(Errno::MFILE),
            StreamEnd::Same(earlier) => Ok(End::Same(earlier.into())),
        };
        let [input, output, error] = wanted.ends;
        let ends = [end(input)?, end(output)?, end(error)?];
        match descriptors.next() {
            None => Ok(Self { ends, window: wanted.window }),
            Some(_) => Err(Errno::INVAL),
        }
    }

    /// Those that were handed in.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.ends.iter().filter_map(|end| match end {
            End::Descriptor(fd) => Some(fd.as_fd()),
            End::Terminal | End::Same(_) => None,
        })
    }

    pub(crate) fn wants_terminal(&self) -> bool {
        self.ends.iter().any(|end| matches!(end, End::Terminal))
    }

    /// The descriptor of one stream.
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
    /// Opens one on the inside's own devpts.
    ///
    /// # Errors
    /// What pts(4) and ioctl_tty(2) say.
    pub(crate) fn open(window: Option<(u16, u16)>) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let controller = rustix::fs::open("/dev/pts/ptmx", flags, Mode::empty())?;
        rustix::pty::unlockpt(&controller)?;
        let peer = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let user = rustix::pty::ioctl_tiocgptpeer(&controller, peer)?;
        if let Some((rows, columns)) = window {
            let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            rustix::termios::tcsetwinsize(&controller, size)?;
        }
        Ok(Self { controller, user })
    }
}

/// Leads a session of its own from now on, with this as its controlling terminal. The command gets a
/// process group of its own in it, so that job control signals find a parent in the same session and
/// are not dropped.
///
/// # Errors
/// What setsid(2) and ioctl_tty(2) say.
pub(crate) fn lead_session(terminal: Option<&Terminal>) -> Result<(), Errno> {
    // SAFETY: takes nothing. Not by rustix, which takes what it returns for a number that is not 0, as
    // gVisor's kernel of 2022 returns it.
    if unsafe { libc::setsid() } < 0 {
        // An engine has started this process so.
        if rustix::process::getsid(None)? != rustix::process::getpid() {
            return Err(Errno::PERM);
        }
    }
    match terminal {
        Some(terminal) => rustix::process::ioctl_tiocsctty(&terminal.user),
        None => Ok(()),
    }
}
