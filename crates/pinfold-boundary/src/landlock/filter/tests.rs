use super::{RULES, program};

/// What the filter says to a call with these arguments, as the kernel would run it.
fn said(number: i64, arguments: [u64; 6]) -> u32 {
    let program = program();
    let word = |offset: u32| match offset {
        0 => number as u32,
        offset => arguments[(offset as usize - 16) / 8] as u32,
    };
    let (mut at, mut loaded) = (0, 0);
    loop {
        let line = program[at];
        at += 1;
        match line.code {
            super::LOAD => loaded = word(line.k),
            super::AND => loaded &= line.k,
            super::JUMP_EQUAL if loaded == line.k => at += usize::from(line.jt),
            super::JUMP_EQUAL => at += usize::from(line.jf),
            _ => return line.k,
        }
    }
}

const PASS: u32 = libc::SECCOMP_RET_ALLOW;
const HEAR: u32 = libc::SECCOMP_RET_USER_NOTIF;

fn fail(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno as u32
}

#[test]
fn other_calls_pass() {
    for number in [libc::SYS_read, libc::SYS_openat, libc::SYS_clone, libc::SYS_kill, 1_000] {
        assert_eq!(said(number, [0; 6]), PASS, "{number}");
    }
}

#[test]
fn no_call_has_two_rules() {
    let mut numbers: Vec<i64> = RULES.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    let count = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), count);
}

#[test]
fn sockets_are_pairs_that_stay_connected() {
    let refused = fail(libc::EAFNOSUPPORT);
    for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_VSOCK] {
        assert_eq!(said(libc::SYS_socket, [family as u64, 1, 0, 0, 0, 0]), refused);
    }
    let pair = |family: i32, kind: i32| {
        said(libc::SYS_socketpair, [family as u64, kind as u64, 0, 0, 0, 0])
    };
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    for kind in [libc::SOCK_STREAM, libc::SOCK_SEQPACKET] {
        assert_eq!(pair(libc::AF_UNIX, kind | flags), PASS);
        assert_eq!(pair(libc::AF_INET, kind), refused);
    }
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW, 0, 15] {
        assert_eq!(pair(libc::AF_UNIX, kind | flags), refused, "{kind}");
    }
    assert_eq!(said(libc::SYS_connect, [3; 6]), fail(libc::EACCES));
}

#[test]
fn modes_and_times_are_heard_of_and_owners_refused() {
    for number in [libc::SYS_fchmod, libc::SYS_fchmodat, 452, libc::SYS_utimensat] {
        assert_eq!(said(number, [0; 6]), HEAR, "{number}");
    }
    for number in [libc::SYS_fchown, libc::SYS_fchownat] {
        assert_eq!(said(number, [0; 6]), fail(libc::EPERM), "{number}");
    }
    for number in [libc::SYS_setxattr, libc::SYS_fremovexattr, 463, 466, 469] {
        assert_eq!(said(number, [0; 6]), fail(libc::EOPNOTSUPP), "{number}");
    }
    for request in [0x4008_6602_u64, 0x401c_5820] {
        assert_eq!(said(libc::SYS_ioctl, [3, request, 0, 0, 0, 0]), fail(libc::EPERM));
    }
    assert_eq!(said(libc::SYS_ioctl, [3, libc::TIOCGWINSZ, 0, 0, 0, 0]), PASS);
}

#[test]
fn a_process_changes_its_own_limits_alone() {
    let own = [
        (libc::SYS_prlimit64, [0; 6]),
        (libc::SYS_sched_setaffinity, [0; 6]),
        (libc::SYS_setpriority, [0, 0, 5, 0, 0, 0]),
        (libc::SYS_ioprio_set, [1, 0, 5, 0, 0, 0]),
    ];
    let others = [
        (libc::SYS_prlimit64, [7, 0, 0, 0, 0, 0]),
        (libc::SYS_sched_setaffinity, [7, 0, 0, 0, 0, 0]),
        (libc::SYS_setpriority, [0, 7, 5, 0, 0, 0]),
        (libc::SYS_setpriority, [libc::PRIO_USER.into(), 0, 5, 0, 0, 0]),
        (libc::SYS_setpriority, [libc::PRIO_PGRP.into(), 0, 5, 0, 0, 0]),
        (libc::SYS_ioprio_set, [3, 0, 5, 0, 0, 0]),
    ];
    for (number, arguments) in own {
        assert_eq!(said(number, arguments), PASS, "{number} {arguments:?}");
    }
    for (number, arguments) in others {
        assert_eq!(said(number, arguments), fail(libc::EPERM), "{number} {arguments:?}");
    }
}
