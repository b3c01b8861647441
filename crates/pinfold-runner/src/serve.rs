//! One request, from the socket to the unit. Everything is checked before anything is made.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fstat;
use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
    recvmsg, sendmsg, shutdown, socketpair, sockopt,
};
use rustix::process::umask;

use crate::accounts::Account;
use crate::caller::Caller;
use crate::grant::Allowed;
use crate::mounts::{self, Ids};
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::request::{self, MOST_DESCRIPTORS, Request, malformed};
use crate::{installed, state, unit};

/// Seconds after which a request is given up, whatever it waits for: a file system may be a caller's.
const LONGEST: libc::c_uint = 60;
/// How long a caller may take to send its request.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Serves the request that comes over a socket, which is init's from then on. Returns a line for the log.
///
/// # Errors
/// Returns why nothing was started.
pub fn serve(socket: BorrowedFd<'_>) -> Result<String, Refusal> {
    prepare(socket)?;
    // SAFETY: alarm(2) has no preconditions.
    unsafe { libc::alarm(LONGEST) };
    let caller = Caller::of_socket(socket)?;
    let sudo = std::env::var_os("SUDO_UID").map(|uid| uid.to_string_lossy().into_owned());
    caller.agrees_with_sudo(sudo.as_deref())?;

    let policy = Policy::load()?;
    let account = Account::of_id(caller.uid)?;
    let directories = policy.directories(&account)?;
    let service = Account::of_name(policy.service(&account.name))?;
    if service.uid == 0 || service.uid == caller.uid {
        return Err(Refusal::new(
            format!("user {} has the id of root or of the caller", service.name),
            "give the service user an id of its own",
        ));
    }
    // Two names of one id are one user, whatever the policy calls them.
    let has_its_id = |name: &str| Account::of_name(name).is_ok_and(|one| one.uid == service.uid);
    let is_it = |name: &&str| *name == service.name || has_its_id(name);
    if let Some(other) = policy.others(&account.name).find(is_it) {
        return Err(Refusal::new(
            format!("users {} and {other} have the same id", service.name),
            "give each an id of its own: sessions of two host users would reach each other",
        ));
    }

    let (request, descriptors) = receive(socket)?;
    let [program, theirs @ ..] = descriptors.as_slice() else { return Err(malformed()) };
    if theirs.len() != request.grants.len() {
        return Err(malformed());
    }
    check_program(&policy, program)?;
    let allowed = Allowed { caller: &caller, account: &account, directories: &directories };
    let opened: Vec<OwnedFd> = request
        .grants
        .iter()
        .zip(theirs)
        .map(|(wanted, theirs)| allowed.open(wanted, theirs))
        .collect::<Result<_, _>>()?;
    drop(descriptors);

    let files =
        policy.environment_files.iter().map(|file| installed::open(&installed::canonical(file)));
    let mut handed: Vec<OwnedFd> = files.collect::<Result<_, _>>()?;
    let said = [unit::HANDED, handed.len() as u8];

    // From here on rights are used.
    handed.splice(0..0, state::mounts(&policy, &account.name, &service)?);
    let on_disk = Ids { uid: caller.uid, gid: caller.gid };
    let shown = mounts::namespace(on_disk, Ids { uid: service.uid, gid: service.gid })
        .map_err(Refusal::at("cannot make a map of owners"))?;
    for (wanted, file) in request.grants.iter().zip(&opened) {
        let (name, is_writable) = (wanted.path.display().to_string(), wanted.is_writable);
        handed.push(mounts::grant(file, is_writable, Some(&shown), &name)?);
    }
    start(socket, unit::arguments(&policy, &service, &request), said, &handed)?;
    Ok(format!("session {} of {} with {} mounts", request.session, account.name, opened.len()))
}

/// Says why nothing was started, and ends the conversation for every process that has the socket.
pub fn refuse(socket: BorrowedFd<'_>, refusal: &Refusal) {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    // A caller that does not listen has lost nothing.
    let _ = rustix::net::send(socket, &refusal.encode(), flags);
    let _ = shutdown(socket, Shutdown::Both);
}

/// Makes this process one that inherits nothing but the socket.
///
/// # Errors
/// Returns that it is no socket of a caller's or of systemd's, or that the kernel is too old.
pub(crate) fn prepare(socket: BorrowedFd<'_>) -> Result<(), Refusal> {
    let is_socket = sockopt::socket_type(socket) == Ok(SocketType::SEQPACKET)
        && sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX);
    if !is_socket {
        return Err(Refusal::new(
            "standard input is no socket of a caller's",
            "`systemctl start pinfold-runner.socket` starts the runner for each caller",
        ));
    }
    umask(rustix::fs::Mode::from_raw_mode(0o077));
    let (call, flag) = (libc::SYS_close_range, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: integer arguments; with this flag no descriptor closes before a program is executed.
    let closed = unsafe { libc::syscall(call, 3, u32::MAX, flag) };
    if closed != 0 {
        let what = "cannot keep descriptors from systemd-run (Linux 5.11 is needed)";
        return Err(Refusal::plain(what));
    }
    Ok(())
}

fn receive(socket: BorrowedFd<'_>) -> Result<(Request, Vec<OwnedFd>), Refusal> {
    let failed = Refusal::at("no request");
    let mut ready = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
    if retry_on_intr(|| poll(&mut ready, Some(&PATIENCE))).map_err(&failed)? == 0 {
        return Err(Refusal::plain("no request within 5 seconds"));
    }
    let mut message = vec![0; request::LONGEST];
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut message)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = recvmsg(socket, &mut slices, &mut ancillary, flags).map_err(&failed)?;
    let mut descriptors = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = part {
            descriptors.extend(some);
        }
    }
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Refusal::plain("the request is too long, or has too many descriptors"));
    }
    Ok((Request::decode(&message[..got.bytes])?, descriptors))
}

/// Checks that both ends of init's channel are the same program, and this one the administrator's.
fn check_program(policy: &Policy, theirs: &OwnedFd) -> Result<(), Refusal> {
    let path = policy.program.as_path();
    let ours = fstat(installed::open(path)?).map_err(Refusal::at(path.display()))?;
    let theirs = fstat(theirs).map_err(Refusal::at(path.display()))?;
    if (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino) {
        return Ok(());
    }
    Err(Refusal::new(
        "this is not the pinfold that the administrator installed",
        format!("start {}", path.display()),
    ))
}

/// Starts the unit, whose init gets mounts and files over a socket of its own: the caller never has them.
fn start(
    socket: BorrowedFd<'_>,
    arguments: Vec<String>,
    said: [u8; 2],
    handed: &[OwnedFd],
) -> Result<(), Refusal> {
    let failed = Refusal::at("cannot hand the mounts over");
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(&failed)?;
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let handed: Vec<BorrowedFd<'_>> = handed.iter().map(OwnedFd::as_fd).collect();
    // There is room for as many as a request and a policy have.
    ancillary.push(SendAncillaryMessage::ScmRights(&handed));
    sendmsg(&ours, &[IoSlice::new(&said)], &mut ancillary, SendFlags::NOSIGNAL).map_err(failed)?;
    let input = socket.try_clone_to_owned().map_err(Refusal::plain)?;
    unit::start(&arguments, input, theirs, ours.as_fd())
}
