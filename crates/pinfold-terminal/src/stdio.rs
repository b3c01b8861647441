//! The command's standard streams.
//!
//! A terminal stays outside: the sandbox gets one of its own. /dev/null is handed in as it is.
//! Anything else stays outside too, with a pipe between. A descriptor of a file is a handle on its
//! owner, mode and attributes, whatever the mount tree says. And a pipe of the user's can be opened
//! again the other way round (/proc/self/fd/0): the sandbox could put commands before a shell that
//! reads its script from the same pipe, and take what others wrote to the same output. The price is
//! that input from a pipe which the command does not read is lost to the next reader, as with
//! ssh(1): nobody can see that the sandbox wants to read. Of a file nothing is lost (`input`).

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::thread::JoinHandle;

use pinfold_boundary::{Stdio, StdioEnd};
use pinfold_wire::Window;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::caller::CallerTerminal;
use crate::input::{Feeding, FileInput};
use crate::notify;

/// One direction of bytes between the caller's stream and the sandbox's.
pub struct Pump {
    from: OwnedFd,
    to: OwnedFd,
    /// Whether its end has to be waited for: output, not input.
    output: bool,
    /// How many bytes a file may get.
    most: Option<u64>,
    /// Whether pinfold speaks where this goes once it is over.
    is_followed: bool,
}

/// The streams for the plan, and what has to be moved by hand.
pub struct Streams {
    /// What the sandbox gets.
    pub stdio: Stdio,
    /// What moves bytes between it and the caller.
    pub moved: Moved,
}

/// What moves bytes while the command runs.
#[derive(Default)]
pub struct Moved {
    pumps: Vec<Pump>,
    file: Option<FileInput>,
}

impl Moved {
    /// Lets a file that is written to get so many bytes at most.
    pub fn bound(&mut self, most: u64) {
        self.pumps.iter_mut().for_each(|pump| pump.most = Some(most));
    }

    /// Starts to move bytes. The handles are for output: its end has to be waited for. A file
    /// that is read from is set back when its handle is dropped.
    ///
    /// # Errors
    /// Returns the error of starting a thread.
    pub fn start(self) -> io::Result<(Vec<JoinHandle<()>>, Option<Feeding>)> {
        let feeding = self.file.map(|file| file.start(STACK)).transpose()?;
        let mut outputs = Vec::new();
        for pump in self.pumps {
            outputs.extend(pump.start()?);
        }
        Ok((outputs, feeding))
    }
}

/// What a log says when it is full.
const FULL: &[u8] = b"\npinfold: the log is full; what follows is dropped\n";
/// Bytes that are copied to a file at once: as many as a pipe holds (pipe(7)).
const BUFFER: usize = 64 * 1024;

/// Bytes of stack of a thread that moves bytes.
pub(crate) const STACK: usize = 128 * 1024;

/// Returns a terminal of the sandbox's own for all three, whatever the caller's are, and set as this
/// one.
pub fn terminal(window: Window, like: Option<&CallerTerminal>) -> Streams {
    let ends = [(); 3].map(|()| StdioEnd::Terminal);
    let attributes = like.map(CallerTerminal::attributes);
    Streams {
        stdio: Stdio { ends, window: Some(window), attributes, further: None },
        moved: Moved::default(),
    }
}

/// Looks at the caller's three streams. Where one is a terminal the sandbox has its own, like this
/// one; without one it has a pipe instead.
///
/// # Errors
/// Returns what fstat(2), pipe(2) and fcntl(2) say.
pub fn streams(terminal: Option<&CallerTerminal>) -> Result<Streams, Errno> {
    let mut moved = Moved::default();
    let mut ends = Vec::with_capacity(3);
    let mut seen: Vec<Option<Stat>> = Vec::new();
    for (index, stream) in caller_streams().into_iter().enumerate() {
        let (end, stat) = end_for(index, stream, terminal.is_some(), &seen, &mut moved)?;
        ends.push(end);
        seen.push(stat);
    }
    let [input, output, error] = <[StdioEnd; 3]>::try_from(ends).map_err(|_| Errno::INVAL)?;
    let (window, attributes) =
        (terminal.map(CallerTerminal::size), terminal.map(CallerTerminal::attributes));
    Ok(Streams {
        stdio: Stdio { ends: [input, output, error], window, attributes, further: None },
        moved,
    })
}

impl Streams {
    /// Returns whether one of them is a terminal of the sandbox's own.
    pub fn wants_terminal(&self) -> bool {
        self.stdio.ends.iter().any(|end| matches!(end, StdioEnd::Terminal))
    }
}

/// Streams of nothing.
///
/// # Errors
/// Returns the error of opening `/dev/null`.
pub fn nothing() -> Result<Streams, Errno> {
    let end = || null().map(StdioEnd::Descriptor);
    let stdio = Stdio::plain([end()?, end()?, end()?]);
    Ok(Streams { stdio, moved: Moved::default() })
}

fn caller_streams() -> [BorrowedFd<'static>; 3] {
    [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()]
}

fn end_for(
    index: usize,
    stream: BorrowedFd<'_>,
    has_terminal: bool,
    seen: &[Option<Stat>],
    moved: &mut Moved,
) -> Result<(StdioEnd, Option<Stat>), Errno> {
    let duplicate = || rustix::io::fcntl_dupfd_cloexec(stream, 3);
    let stat = match rustix::fs::fstat(stream) {
        Ok(stat) => stat,
        // A closed stream is an empty one.
        Err(Errno::BADF) => return Ok((StdioEnd::Descriptor(null()?), None)),
        Err(errno) => return Err(errno),
    };
    if has_terminal && rustix::termios::isatty(stream) {
        return Ok((StdioEnd::Terminal, None));
    }
    if is_null(&stat) {
        return Ok((StdioEnd::Descriptor(duplicate()?), None));
    }
    // `>file 2>&1` is one stream: two pipes would lose the order of what is written.
    let same = |earlier: &Option<Stat>| {
        earlier.as_ref().is_some_and(|e| (e.st_dev, e.st_ino) == (stat.st_dev, stat.st_ino))
    };
    if let Some(earlier) = seen.iter().skip(1).position(same) {
        return Ok((StdioEnd::Same(earlier as u8 + 1), Some(stat)));
    }
    if index == 0 && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        let (file, inside) = FileInput::new(duplicate()?)?;
        moved.file = Some(file);
        return Ok((StdioEnd::Descriptor(inside), Some(stat)));
    }
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (inside, pump) = if index == 0 {
        (
            reader,
            Pump { from: duplicate()?, to: writer, output: false, most: None, is_followed: false },
        )
    } else {
        (
            writer,
            Pump { from: reader, to: duplicate()?, output: true, most: None, is_followed: false },
        )
    };
    moved.pumps.push(pump);
    Ok((StdioEnd::Descriptor(inside), Some(stat)))
}

fn null() -> Result<OwnedFd, Errno> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// A log that takes so many bytes at most. What comes after, or finds no room on the disk, is dropped and
/// counted, so that who writes goes on.
pub struct Bounded {
    file: File,
    left: u64,
    dropped: u64,
}

impl Bounded {
    /// Wraps a file that gets so many bytes at most.
    pub fn new(file: File, most: u64) -> Self {
        Self { file, left: most, dropped: 0 }
    }

    /// Writes what there is room for.
    pub fn take(&mut self, bytes: &[u8]) {
        let taken = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        if self.file.write_all(&bytes[..taken]).is_err() {
            self.left = 0;
            self.dropped += bytes.len() as u64;
            return;
        }
        self.left -= taken as u64;
        self.dropped += (bytes.len() - taken) as u64;
        if taken > 0 && self.left == 0 {
            // A disk that is full has no room for this, either.
            let _ = self.file.write_all(FULL);
        }
    }

    /// Says how much was dropped.
    pub fn end(&mut self) {
        if self.dropped > 0 {
            let _ = writeln!(self.file, "pinfold: {} bytes were dropped here", self.dropped);
        }
    }
}

/// Copies to a file. Others may write to it at the same time through the same open file: write(2)
/// takes its place at the moment of writing, where splice(2), which `io::copy` would use, takes it
/// before it waits for input, and would write over what came between.
fn write_all(from: &mut File, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => take(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns whether this is a socket.
fn is_socket(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.file_type().is_socket())
}

/// Returns whether this is the null device, which has no state at all.
fn is_null(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && stat.st_rdev == rustix::fs::makedev(1, 3)
}

impl Pump {
    /// Makes the streams between the caller's terminal and the sandbox's, in both directions.
    ///
    /// # Errors
    /// Returns the error of `fcntl(2)`.
    pub fn terminal(caller: BorrowedFd<'_>, inside: BorrowedFd<'_>) -> Result<[Self; 2], Errno> {
        let duplicate = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
        Ok([
            Self {
                from: duplicate(caller)?,
                to: duplicate(inside)?,
                output: false,
                most: None,
                is_followed: false,
            },
            Self {
                from: duplicate(inside)?,
                to: duplicate(caller)?,
                output: true,
                most: None,
                is_followed: true,
            },
        ])
    }

    /// Moves bytes on a thread of its own until an end closes. The handle is for output only:
    /// input that nobody reads any more is no reason to wait.
    ///
    /// # Errors
    /// Returns the error of starting a thread.
    pub fn start(self) -> io::Result<Option<JoinHandle<()>>> {
        let output = self.output;
        let work = move || {
            let (mut from, mut to) = (File::from(self.from), File::from(self.to));
            // Both ends are the caller's or the sandbox's; when one is gone the stream is over. EIO
            // is how a terminal whose other side is closed says so (pty(7)).
            let _ = match (to.metadata(), self.most) {
                (Ok(metadata), Some(most)) if metadata.is_file() => {
                    let mut log = Bounded::new(to, most);
                    let copied = write_all(&mut from, |bytes| {
                        log.take(bytes);
                        Ok(())
                    });
                    log.end();
                    copied
                }
                (Ok(metadata), None) if metadata.is_file() => {
                    write_all(&mut from, |bytes| to.write_all(bytes))
                }
                _ if self.is_followed => write_all(&mut from, |bytes| {
                    notify::follow(bytes);
                    to.write_all(bytes)
                }),
                // From a Unix socket, which is what node gives its children, splice(2) passes nothing on before
                // the other end is closed (seen with Linux 6.18).
                _ if is_socket(&from) => write_all(&mut from, |bytes| to.write_all(bytes)),
                _ => io::copy(&mut from, &mut to).map(drop),
            };
        };
        let handle = std::thread::Builder::new().stack_size(STACK).spawn(work)?;
        Ok(output.then_some(handle))
    }
}
