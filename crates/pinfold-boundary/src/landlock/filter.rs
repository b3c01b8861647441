//! The second filter for system calls: what is the machine's where there are no namespaces.
//!
//! It comes on top of the filter that every sandbox has and that refuses other architectures, so a call needs both to allow it.

use std::os::fd::OwnedFd;

use pinfold_init::SYS_FCHMODAT2;
use pinfold_seccomp::code::{AND, JUMP_EQUAL, LOAD, NUMBER, RETURN, argument};
use rustix::io::Errno;

/// What the filter says to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The call fails with this error.
    Fail(i32),
    /// The reaper hears of it and does it, or not.
    Hear,
    /// It passes only with these values of bits of arguments.
    Only(&'static [(u32, u32, &'static [u32])], i32),
    /// It fails with these values of an argument.
    Not(u32, &'static [u32]),
}

use Verdict::{Fail, Hear, Not, Only};

const ALL: u32 = u32::MAX;
/// The calling process: 0 as the number of a process.
const OWN: &[(u32, u32, &[u32])] = &[(0, ALL, &[0])];
/// Bits of socketpair(2)'s second argument that are the type (`SOCK_TYPE_MASK`, linux/net.h).
const SOCKET_TYPE: u32 = 0xf;
/// Pairs of sockets that stay connected to each other.
const PAIRS: &[(u32, u32, &[u32])] = &[
    (0, ALL, &[libc::AF_UNIX as u32]),
    (1, SOCKET_TYPE, &[libc::SOCK_STREAM as u32, libc::SOCK_SEQPACKET as u32]),
];
/// FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_SETVERSION (linux/fs.h) and FS_IOC_ENABLE_VERITY (linux/fsverity.h), which need
/// no right to write.
const FLAGS: &[u32] = &[0x4008_6602, 0x401c_5820, 0x4008_7602, 0x4080_6685];
/// setxattrat(2), removexattrat(2) (Linux 6.13) and file_setattr(2) (6.17), of one number everywhere.
const LATER: [i64; 3] = [463, 466, 469];
/// getxattrat(2) and listxattrat(2) (Linux 6.13).
const READ_LATER: [i64; 2] = [464, 465];
/// linux/ioprio.h
const IOPRIO_WHO_PROCESS: u32 = 1;

/// The calls, in groups of one reason.
const RULES: &[(i64, Verdict)] = &[
    // Landlock has no rules for paths of sockets, and a user's own services run what they are sent. A pair of
    // connected sockets leads nowhere else; one of datagrams can be sent from to any path.
    (libc::SYS_socket, Fail(libc::EAFNOSUPPORT)),
    (libc::SYS_socketpair, Only(PAIRS, libc::EAFNOSUPPORT)),
    (libc::SYS_connect, Fail(libc::EACCES)),
    (libc::SYS_bind, Fail(libc::EACCES)),
    // Objects of System V and POSIX queues are the machine's.
    (libc::SYS_shmget, Fail(libc::ENOSYS)),
    (libc::SYS_shmat, Fail(libc::ENOSYS)),
    (libc::SYS_shmctl, Fail(libc::ENOSYS)),
    (libc::SYS_semget, Fail(libc::ENOSYS)),
    (libc::SYS_semop, Fail(libc::ENOSYS)),
    (libc::SYS_semtimedop, Fail(libc::ENOSYS)),
    (libc::SYS_semctl, Fail(libc::ENOSYS)),
    (libc::SYS_msgget, Fail(libc::ENOSYS)),
    (libc::SYS_msgsnd, Fail(libc::ENOSYS)),
    (libc::SYS_msgrcv, Fail(libc::ENOSYS)),
    (libc::SYS_msgctl, Fail(libc::ENOSYS)),
    (libc::SYS_mq_open, Fail(libc::ENOSYS)),
    (libc::SYS_mq_unlink, Fail(libc::ENOSYS)),
    // Landlock has no rules for what follows: of any file of the user's.
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, Hear),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_utime, Hear),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_utimes, Hear),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_futimesat, Hear),
    (libc::SYS_fchmod, Hear),
    (libc::SYS_fchmodat, Hear),
    (SYS_FCHMODAT2, Hear),
    (libc::SYS_utimensat, Hear),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chown, Fail(libc::EPERM)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_lchown, Fail(libc::EPERM)),
    (libc::SYS_fchown, Fail(libc::EPERM)),
    (libc::SYS_fchownat, Fail(libc::EPERM)),
    (libc::SYS_setxattr, Fail(libc::EOPNOTSUPP)),
    (libc::SYS_lsetxattr, Fail(libc::EOPNOTSUPP)),
    (libc::SYS_fsetxattr, Fail(libc::EOPNOTSUPP)),
    (libc::SYS_removexattr, Fail(libc::EOPNOTSUPP)),
    (libc::SYS_lremovexattr, Fail(libc::EOPNOTSUPP)),
    (libc::SYS_fremovexattr, Fail(libc::EOPNOTSUPP)),
    (LATER[0], Fail(libc::EOPNOTSUPP)),
    (LATER[1], Fail(libc::EOPNOTSUPP)),
    (LATER[2], Fail(libc::EOPNOTSUPP)),
    (libc::SYS_ioctl, Not(1, FLAGS)),
    // Extended attributes of any file, such as the address that it was downloaded from. Those of an open file can be read.
    (libc::SYS_getxattr, Fail(libc::EOPNOTSUPP)),
    (libc::SYS_lgetxattr, Fail(libc::EOPNOTSUPP)),
    (libc::SYS_listxattr, Fail(libc::EOPNOTSUPP)),
    (libc::SYS_llistxattr, Fail(libc::EOPNOTSUPP)),
    (READ_LATER[0], Fail(libc::EOPNOTSUPP)),
    (READ_LATER[1], Fail(libc::EOPNOTSUPP)),
    // It would show the names in every directory that the user may read.
    (libc::SYS_inotify_add_watch, Fail(libc::EPERM)),
    // A user may do this to all processes of the user's.
    (libc::SYS_prlimit64, Only(OWN, libc::EPERM)),
    (libc::SYS_sched_setparam, Only(OWN, libc::EPERM)),
    (libc::SYS_sched_setscheduler, Only(OWN, libc::EPERM)),
    (libc::SYS_sched_setaffinity, Only(OWN, libc::EPERM)),
    (libc::SYS_sched_setattr, Only(OWN, libc::EPERM)),
    (libc::SYS_setpriority, Only(&[(0, ALL, &[libc::PRIO_PROCESS]), (1, ALL, &[0])], libc::EPERM)),
    (libc::SYS_ioprio_set, Only(&[(0, ALL, &[IOPRIO_WHO_PROCESS]), (1, ALL, &[0])], libc::EPERM)),
];

/// Loads the filter into this process and all that it will start. Returns where calls are heard of.
///
/// # Errors
/// Returns the error of `seccomp(2)`.
pub(super) fn load() -> Result<OwnedFd, Errno> {
    pinfold_seccomp::listen(&program())
}

fn program() -> Vec<libc::sock_filter> {
    let mut program = vec![statement(LOAD, NUMBER)];
    for (number, verdict) in RULES {
        let block = block(*verdict);
        // No block is longer than a jump.
        program.push(jump(*number as u32, 0, block.len() as u8));
        program.extend(block);
    }
    program.push(statement(RETURN, libc::SECCOMP_RET_ALLOW));
    program
}

/// Returns what decides about one call, to its end.
fn block(verdict: Verdict) -> Vec<libc::sock_filter> {
    let fail = |errno: i32| statement(RETURN, libc::SECCOMP_RET_ERRNO | errno as u32);
    let pass = statement(RETURN, libc::SECCOMP_RET_ALLOW);
    match verdict {
        Fail(errno) => vec![fail(errno)],
        Hear => vec![statement(RETURN, libc::SECCOMP_RET_USER_NOTIF)],
        Only(arguments, errno) => {
            let mut block = Vec::new();
            for (index, bits, values) in arguments {
                block.extend([statement(LOAD, argument(*index)), statement(AND, *bits)]);
                for (nth, value) in values.iter().enumerate() {
                    // Over the others and the failure.
                    block.push(jump(*value, (values.len() - nth) as u8, 0));
                }
                block.push(fail(errno));
            }
            block.push(pass);
            block
        }
        Not(index, values) => {
            let mut block = vec![statement(LOAD, argument(index))];
            for value in values {
                block.extend([jump(*value, 0, 1), fail(libc::EPERM)]);
            }
            block.push(pass);
            block
        }
    }
}

fn statement(code: u16, value: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k: value }
}

fn jump(value: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter { code: JUMP_EQUAL, jt: yes, jf: no, k: value }
}

#[cfg(test)]
mod tests;
