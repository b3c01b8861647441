use std::collections::BTreeMap;

use super::Character;
use super::table::{TABLE, Verdict};
use super::{effective, program};

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const EAFNOSUPPORT: u32 = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32;

/// Runs the program as the kernel would.
fn evaluate(program: &[libc::sock_filter], arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let mut data = [0_u32; 16];
    data[0] = number;
    data[1] = arch;
    for (index, argument) in arguments.into_iter().enumerate() {
        data[4 + 2 * index] = argument as u32;
        data[5 + 2 * index] = (argument >> 32) as u32;
    }
    let (mut at, mut word) = (0, 0);
    loop {
        let op = &program[at];
        at += 1;
        let taken = match op.code {
            0x20 => {
                word = data[op.k as usize / 4];
                continue;
            }
            0x54 => {
                word &= op.k;
                continue;
            }
            0x06 => return op.k,
            0x05 => {
                at += op.k as usize;
                continue;
            }
            0x15 => word == op.k,
            0x35 => word >= op.k,
            0x45 => word & op.k != 0,
            code => panic!("unknown instruction {code:#x}"),
        };
        at += usize::from(if taken { op.jt } else { op.jf });
    }
}

/// Zero, without the call having been made.
const PRETENDED: u32 = 0x0005_0000;

const NATIVE: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };

fn answer(nested: bool, number: i64, arguments: [u64; 6]) -> u32 {
    evaluate(
        &program(Character { nested, ..Character::default() }),
        NATIVE,
        number as u32,
        arguments,
    )
}

#[test]
fn every_call_of_the_kernel_is_answered_as_the_reviewed_list_says() {
    let listed: BTreeMap<u32, (&str, Verdict)> =
        TABLE.iter().map(|row| (row.number, (row.name, row.verdict))).collect();
    let usual = Character::default();
    let characters = [
        usual,
        Character { nested: true, ..usual },
        Character { root_by_name: true, ..usual },
        Character { own_kernel: true, ..usual },
    ];
    for character in characters {
        let program = program(character);
        for number in 0..1200 {
            let got = evaluate(&program, NATIVE, number, [0; 6]);
            let Some((name, verdict)) = listed.get(&number) else {
                assert_eq!(got, ENOSYS, "unlisted call {number}");
                continue;
            };
            let expected = match effective(*verdict, character) {
                Verdict::Refuse | Verdict::Nested => EPERM,
                Verdict::Absent => ENOSYS,
                // Family 0 is AF_UNSPEC.
                Verdict::Families => EAFNOSUPPORT,
                Verdict::Pretend | Verdict::Empty => PRETENDED,
                _ => ALLOW,
            };
            assert_eq!(got, expected, "{name}, {character:?}");
        }
    }
}

#[test]
fn a_write_of_nothing_is_not_made_where_an_engine_s_kernel_would_make_it() {
    let write = |own_kernel, count| {
        let program = program(Character { own_kernel, ..Character::default() });
        evaluate(&program, NATIVE, libc::SYS_write as u32, [1, 0, count, 0, 0, 0])
    };
    assert_eq!(write(true, 0), PRETENDED);
    assert_eq!(write(false, 0), ALLOW);
    for count in [1, 4096, 1 << 32, u64::MAX] {
        assert_eq!(write(true, count), ALLOW, "{count}");
    }
}

#[test]
fn root_by_name_changes_owners_and_ids_without_effect() {
    let root = Character { root_by_name: true, ..Character::default() };
    for name in ["fchownat", "setresuid", "setgroups", "capset"] {
        let row = TABLE.iter().find(|row| row.name == name).unwrap();
        assert_eq!(effective(row.verdict, root), Verdict::Pretend, "{name}");
        assert_eq!(effective(row.verdict, Character::default()), Verdict::Allow, "{name}");
    }
}

#[test]
fn renames_are_heard_of_only_where_there_is_a_view() {
    let heard = libc::SECCOMP_RET_USER_NOTIF;
    let with = program(Character { moves: true, ..Character::default() });
    for number in [libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_landlock_restrict_self] {
        assert_eq!(evaluate(&with, NATIVE, number as u32, [0; 6]), heard, "{number}");
        assert_eq!(answer(false, number, [0; 6]), ALLOW, "{number}");
    }
    let own = [0, 0, 0, 0, u64::from(libc::RENAME_NOREPLACE), 0];
    assert_eq!(evaluate(&with, NATIVE, libc::SYS_renameat2 as u32, own), ALLOW);
}

#[test]
fn no_device_is_made_but_where_nested_sandboxes_leave_nothing() {
    let asked = |leaves_nothing, number: i64, arguments| {
        let character = Character { nested: true, leaves_nothing, ..Character::default() };
        let program = program(if leaves_nothing { character } else { Character::default() });
        assert_eq!(answer(true, number, arguments), answer(false, number, arguments));
        evaluate(&program, NATIVE, number as u32, arguments)
    };
    let mknod = |is, mode: u32| asked(is, libc::SYS_mknodat, [0, 0, mode.into(), 0, 0, 0]);
    for device in [libc::S_IFCHR, libc::S_IFBLK] {
        assert_eq!(mknod(false, device | 0o666), EPERM);
        assert_eq!(mknod(true, device | 0o666), ALLOW);
    }
    for other in [0, libc::S_IFREG, libc::S_IFIFO, libc::S_IFSOCK] {
        assert_eq!(mknod(false, other | 0o666), ALLOW);
    }
    assert_eq!(mknod(false, libc::S_IFREG | libc::S_ISUID), EPERM);
    assert_eq!(mknod(true, libc::S_IFREG | libc::S_ISUID), ALLOW);
    let rename = |is, flags: u32| asked(is, libc::SYS_renameat2, [0, 0, 0, 0, flags.into(), 0]);
    assert_eq!(rename(false, libc::RENAME_WHITEOUT), EPERM);
    assert_eq!(rename(false, libc::RENAME_WHITEOUT | libc::RENAME_NOREPLACE), EPERM);
    assert_eq!(rename(true, libc::RENAME_WHITEOUT), ALLOW);
    assert_eq!(rename(false, libc::RENAME_EXCHANGE), ALLOW);
    let root = program(Character { root_by_name: true, ..Character::default() });
    let number = libc::SYS_mknodat as u32;
    let device = u64::from(libc::S_IFCHR);
    assert_eq!(evaluate(&root, NATIVE, number, [0, 0, device, 0, 0, 0]), EPERM);
    assert_eq!(evaluate(&root, NATIVE, number, [0, 0, 0o104_755, 0, 0, 0]), ALLOW);
}

#[test]
fn no_attribute_is_set_where_capabilities_would_count_for_the_files_owner() {
    const EOPNOTSUPP: u32 = libc::SECCOMP_RET_ERRNO | libc::EOPNOTSUPP as u32;
    const SETXATTRAT: i64 = 463;
    let of_root = Character { nested: true, owner_is_other: true, ..Character::default() };
    for number in [libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr, SETXATTRAT] {
        let ask = |character| evaluate(&program(character), NATIVE, number as u32, [0; 6]);
        assert_eq!(ask(of_root), EOPNOTSUPP, "{number}");
        assert_eq!(ask(Character { nested: false, ..of_root }), ALLOW, "{number}");
        assert_eq!(ask(Character { owner_is_other: false, ..of_root }), ALLOW, "{number}");
        assert_eq!(ask(Character { leaves_nothing: true, ..of_root }), ALLOW, "{number}");
    }
}

#[test]
fn the_list_knows_every_call_of_the_kernel_headers() {
    let header = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h";
    let Ok(text) = std::fs::read_to_string(header) else {
        eprintln!("skipped: {header} is not installed (linux-libc-dev)");
        return;
    };
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let listed: BTreeMap<u32, &str> = TABLE.iter().map(|row| (row.number, row.name)).collect();
    let mut seen = 0;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("#define __NR_") else { continue };
        let (name, number) = rest.split_once(' ').unwrap();
        assert_eq!(listed.get(&number.trim().parse().unwrap()), Some(&name), "{name}");
        seen += 1;
    }
    assert!(seen > 300, "only {seen} calls in {header}");
}

#[test]
fn other_architectures_and_x32_end_the_process() {
    let program = program(Character::default());
    assert_eq!(evaluate(&program, 0x4000_0003, 1, [0; 6]), KILL, "i386 write");
    assert_eq!(evaluate(&program, 0x4000_0028, 4, [0; 6]), KILL, "32-bit ARM write");
    if cfg!(target_arch = "x86_64") {
        assert_eq!(evaluate(&program, NATIVE, 0x4000_0000 | 1, [0; 6]), KILL, "x32 write");
    }
}

#[test]
fn namespaces_are_for_nested_sandboxes_alone() {
    for flag in [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWNET] {
        let arguments = [flag as u64 | libc::SIGCHLD as u64, 0, 0, 0, 0, 0];
        assert_eq!(answer(false, libc::SYS_clone, arguments), EPERM);
        assert_eq!(answer(false, libc::SYS_unshare, arguments), EPERM);
        assert_eq!(answer(true, libc::SYS_unshare, arguments), ALLOW);
    }
    let time = [0x80, 0, 0, 0, 0, 0];
    assert_eq!(answer(false, libc::SYS_unshare, time), EPERM, "CLONE_NEWTIME");
    let thread = [(libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_FILES) as u64, 0, 0, 0, 0, 0];
    assert_eq!(answer(false, libc::SYS_clone, thread), ALLOW);
    // The upper half of a register that the kernel truncates does not hide a flag.
    let high = [(1 << 40) | libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0];
    assert_eq!(answer(false, libc::SYS_clone, high), EPERM);
}

#[test]
fn socket_families_are_an_allow_list() {
    let ask = |family: i32, protocol: i32| {
        answer(false, libc::SYS_socket, [family as u64, 1, protocol as u64, 0, 0, 0])
    };
    for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6] {
        assert_eq!(ask(family, 0), ALLOW);
    }
    assert_eq!(ask(libc::AF_NETLINK, libc::NETLINK_ROUTE), ALLOW);
    assert_eq!(ask(libc::AF_NETLINK, libc::NETLINK_NETFILTER), EAFNOSUPPORT);
    for family in [libc::AF_VSOCK, libc::AF_PACKET, libc::AF_ALG, libc::AF_BLUETOOTH, 44] {
        assert_eq!(ask(family, 0), EAFNOSUPPORT, "family {family}");
    }
}

#[test]
fn sockets_of_the_internet_are_an_allow_list() {
    const SOCK_PACKET: i32 = 10;
    const SCTP: i32 = 132;
    const UDP_LITE: i32 = 136;
    let protocol = libc::SECCOMP_RET_ERRNO | libc::EPROTONOSUPPORT as u32;
    let kind = libc::SECCOMP_RET_ERRNO | libc::ESOCKTNOSUPPORT as u32;
    let asked = [
        (libc::SOCK_STREAM, 0, ALLOW),
        (libc::SOCK_STREAM, libc::IPPROTO_TCP, ALLOW),
        (libc::SOCK_STREAM, SCTP, protocol),
        (libc::SOCK_STREAM, libc::IPPROTO_MPTCP, protocol),
        (libc::SOCK_STREAM, libc::IPPROTO_UDP, protocol),
        (libc::SOCK_DGRAM, 0, ALLOW),
        (libc::SOCK_DGRAM, libc::IPPROTO_UDP, ALLOW),
        (libc::SOCK_DGRAM, libc::IPPROTO_ICMP, ALLOW),
        (libc::SOCK_DGRAM, libc::IPPROTO_ICMPV6, ALLOW),
        (libc::SOCK_DGRAM, UDP_LITE, protocol),
        (libc::SOCK_RAW, SCTP, ALLOW),
        (libc::SOCK_SEQPACKET, 0, kind),
        (libc::SOCK_SEQPACKET, SCTP, kind),
        (libc::SOCK_DCCP, 0, kind),
        (SOCK_PACKET, 0x300, kind),
        (0, 0, kind),
    ];
    let flags =
        [0, libc::SOCK_CLOEXEC, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK];
    for (kind, protocol, expected) in asked {
        for flags in flags {
            for family in [libc::AF_INET, libc::AF_INET6] {
                let arguments = [family as u64, (kind | flags) as u64, protocol as u64, 0, 0, 0];
                let answers =
                    [false, true].map(|nested| answer(nested, libc::SYS_socket, arguments));
                assert_eq!(answers, [expected; 2], "{family} {kind} {protocol}");
                assert_eq!(answer(false, libc::SYS_socketpair, arguments), EAFNOSUPPORT);
            }
            let unix = [libc::AF_UNIX as u64, (kind | flags) as u64, 0, 0, 0, 0];
            for number in [libc::SYS_socket, libc::SYS_socketpair] {
                assert_eq!(answer(false, number, unix), ALLOW);
            }
        }
    }
}

#[test]
fn no_request_and_no_option_of_a_socket_loads_a_module() {
    let unknown = |code: i32| libc::SECCOMP_RET_ERRNO | code as u32;
    for nested in [false, true] {
        let ioctl = |request| answer(nested, libc::SYS_ioctl, [3, request, 0, 0, 0, 0]);
        for request in
            [0x8940, 0x8941, 0x8980, 0x8981, 0x8982, 0x8983, 0x89a0, 0x89a1, (1 << 32) | 0x8940]
        {
            assert_eq!(ioctl(request), unknown(libc::ENOPKG), "{request:#x}");
        }
        for request in [libc::SIOCGIFCONF, libc::SIOCGIFHWADDR, libc::SIOCGIFINDEX] {
            assert_eq!(ioctl(request), ALLOW, "{request:#x}");
        }
        let set = |level: i32, name: i32| {
            answer(nested, libc::SYS_setsockopt, [3, level as u64, name as u64, 0, 0, 0])
        };
        for name in 0..64 {
            let expected =
                if [31, 38].contains(&name) { unknown(libc::ENOPROTOOPT) } else { ALLOW };
            assert_eq!(set(libc::SOL_TCP, name), expected, "{name}");
            assert_eq!(set(libc::SOL_SOCKET, name), ALLOW, "{name}");
            assert_eq!(set(libc::SOL_UDP, name), ALLOW, "{name}");
        }
    }
}

#[test]
fn terminals_and_modes_are_filtered_by_argument() {
    let ioctl = |request: u64| answer(false, libc::SYS_ioctl, [0, request, 0, 0, 0, 0]);
    assert_eq!(ioctl(libc::TIOCSTI), EPERM);
    assert_eq!(ioctl((7 << 32) | libc::TIOCSTI), EPERM, "upper half set");
    assert_eq!(ioctl(libc::TIOCGWINSZ), ALLOW);
    // FS_IOC_SET_ENCRYPTION_POLICY, FS_IOC_ADD_ENCRYPTION_KEY, BTRFS_IOC_SNAP_CREATE and _V2.
    for request in [0x800c_6613, 0xc050_6617, 0x5000_9401, 0x5000_9417] {
        assert_eq!(ioctl(request), EPERM, "{request:#x}");
    }
    // FS_IOC_GETFLAGS, FS_IOC_SETFLAGS, FICLONE, FICLONERANGE and FIDEDUPERANGE.
    for request in [0x8008_6601, 0x4008_6602, 0x4004_9409, 0x4020_940d, 0xc018_9436] {
        assert_eq!(ioctl(request), ALLOW, "{request:#x}");
    }
    assert_eq!(answer(false, libc::SYS_fchmod, [3, 0o4755, 0, 0, 0, 0]), EPERM);
    assert_eq!(answer(false, libc::SYS_fchmod, [3, 0o2755, 0, 0, 0, 0]), ALLOW);
    assert_eq!(answer(false, libc::SYS_fchmodat, [3, 0, 0o4755, 0, 0, 0]), EPERM);
    let of_root = program(Character { owner_is_other: true, ..Character::default() });
    let number = libc::SYS_fchmod as u32;
    assert_eq!(evaluate(&of_root, NATIVE, number, [3, 0o2755, 0, 0, 0, 0]), EPERM);
    let open =
        |flags: i32, mode: u64| answer(false, libc::SYS_openat, [0, 0, flags as u64, mode, 0, 0]);
    assert_eq!(open(libc::O_CREAT | libc::O_WRONLY, 0o4755), EPERM);
    assert_eq!(open(libc::O_TMPFILE | libc::O_WRONLY, 0o4755), EPERM);
    assert_eq!(open(libc::O_RDONLY, 0o4755), ALLOW, "no file is made: the mode is not read");
    assert_eq!(open(libc::O_DIRECTORY, 0o4755), ALLOW);
    // A queue is a file, whose file system can be mounted.
    let queue =
        |flags: i32, mode: u64| answer(true, libc::SYS_mq_open, [0, flags as u64, mode, 0, 0, 0]);
    assert_eq!(queue(libc::O_CREAT | libc::O_RDWR, 0o4755), EPERM);
    assert_eq!(queue(libc::O_CREAT | libc::O_RDWR, 0o755), ALLOW);
    assert_eq!(queue(libc::O_RDWR, 0o4755), ALLOW);
    let flags = (libc::O_CREAT | libc::O_RDWR) as u64;
    assert_eq!(answer(false, libc::SYS_mq_open, [0, flags, 0o4755, 0, 0, 0]), ALLOW);
}

#[test]
fn init_cannot_be_limited_slowed_or_joined() {
    let ask =
        |number: i64, first: u64, second: u64| answer(false, number, [first, second, 0, 0, 0, 0]);
    for number in [libc::SYS_prlimit64, libc::SYS_sched_setaffinity, libc::SYS_sched_setattr] {
        assert_eq!(ask(number, 1, 7), EPERM, "call {number}");
        assert_eq!(ask(number, (1 << 32) | 1, 7), EPERM, "call {number}, upper half set");
        assert_eq!(ask(number, 0, 7), ALLOW, "call {number} on oneself");
        assert_eq!(ask(number, 12, 1), ALLOW, "call {number} on another");
    }
    assert_eq!(ask(libc::SYS_setpgid, 0, 1), EPERM);
    assert_eq!(ask(libc::SYS_setpgid, 0, 0), ALLOW);
    assert_eq!(ask(libc::SYS_setpriority, u64::from(libc::PRIO_PROCESS), 1), EPERM);
    assert_eq!(ask(libc::SYS_setpriority, u64::from(libc::PRIO_PROCESS), 0), ALLOW);
    assert_eq!(ask(libc::SYS_setpriority, u64::from(libc::PRIO_USER), 0), EPERM);
    assert_eq!(ask(libc::SYS_ioprio_set, 3, 0), EPERM);
}

#[test]
fn the_longest_path_stays_short() {
    // The kernel runs the filter for each call when it is loaded: see the module's head.
    assert!(
        program(Character::default()).len() < 430,
        "{} instructions",
        program(Character::default()).len()
    );
}

#[test]
fn leases_delegations_and_directory_notification_are_absent() {
    const EINVAL: u32 = libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32;
    for character in [
        Character::default(),
        Character { nested: true, ..Character::default() },
        Character { own_kernel: true, ..Character::default() },
        Character { root_by_name: true, ..Character::default() },
    ] {
        let program = program(character);
        let fcntl = |command: u64| {
            evaluate(&program, NATIVE, libc::SYS_fcntl as u32, [3, command, 1, 0, 0, 0])
        };
        // F_GETDELEG and F_SETDELEG are base + 15 and + 16, and what follows is not known.
        for command in [1024, 1026, 1039, 1040, 1041, 4096, 0xffff_ffff, (7 << 32) | 1024] {
            assert_eq!(fcntl(command), EINVAL, "{command}");
        }
        for command in (0..=17).chain([36, 37, 38, 1025, 1027]).chain(1028..1039) {
            assert_eq!(fcntl(command), ALLOW, "{command}");
        }
    }
}

#[test]
fn ids_that_are_not_mapped_are_refused_as_to_an_ordinary_user() {
    let ours = program(Character { ids: Some((1000, 100)), ..Character::default() });
    let ask = |number: i64, arguments: [u64; 3], at: usize| {
        let mut all = [0; 6];
        all[at..at + 3].copy_from_slice(&arguments);
        evaluate(&ours, NATIVE, number as u32, all)
    };
    const SAME: u64 = u32::MAX as u64;
    let chowns = [(libc::SYS_fchown, 1), (libc::SYS_fchownat, 2)];
    for (number, at) in chowns {
        for allowed in [[1000, 100, 0], [SAME, SAME, 0], [SAME, 100, 0], [u64::MAX, 100, 0]] {
            assert_eq!(ask(number, allowed, at), ALLOW, "{number} {allowed:?}");
        }
        for refused in [[0, 0, 0], [1000, 0, 0], [65534, 100, 0], [SAME, 1000, 0]] {
            assert_eq!(ask(number, refused, at), EPERM, "{number} {refused:?}");
        }
    }
    for (number, own) in [
        (libc::SYS_setuid, 1000),
        (libc::SYS_setresuid, 1000),
        (libc::SYS_setgid, 100),
        (libc::SYS_setresgid, 100),
    ] {
        assert_eq!(ask(number, [own, own, own], 0), ALLOW, "{number}");
        assert_eq!(ask(number, [65534, own, own], 0), EPERM, "{number}");
    }
    assert_eq!(ask(libc::SYS_setreuid, [SAME, 65534, 0], 0), EPERM);
    assert_eq!(ask(libc::SYS_setresuid, [1000, 1000, 0], 0), EPERM);
    assert_eq!(ask(libc::SYS_setreuid, [1000, 1000, 65534], 0), ALLOW, "no third argument");
    // What fails, or asks only, is the kernel's.
    for number in [libc::SYS_setgroups, libc::SYS_setfsuid, libc::SYS_capset] {
        assert_eq!(ask(number, [65534, 0, 0], 0), ALLOW, "{number}");
    }
}

#[test]
fn nested_sandboxes_get_no_control_groups_and_no_tables_of_packet_filters() {
    for number in [libc::SYS_clone, libc::SYS_unshare] {
        let clone = |nested, flags: i32| answer(nested, number, [flags as u64, 0, 0, 0, 0, 0]);
        let both = libc::CLONE_NEWUSER | libc::CLONE_NEWCGROUP;
        assert_eq!(
            (clone(true, libc::CLONE_NEWUSER), clone(false, libc::CLONE_NEWUSER)),
            (ALLOW, EPERM)
        );
        assert_eq!((clone(true, both), clone(false, both)), (EPERM, EPERM));
        let of_guest = Character { nested: true, own_kernel: true, ..Character::default() };
        let arguments = [both as u64, 0, 0, 0, 0, 0];
        assert_eq!(evaluate(&program(of_guest), NATIVE, number as u32, arguments), ALLOW);
    }
    let set = |nested, level: i32, name: u64| {
        answer(nested, libc::SYS_setsockopt, [3, level as u64, name, 0, 0, 0])
    };
    let (policies, routes) = ([16, 17], [200, 211, 1152, 1167, u64::from(u32::MAX)]);
    let tables = [64, 65, 96, 97, 128, 129];
    for (level, refused) in [
        (libc::SOL_IP, [&policies[..], &tables, &routes].concat()),
        (libc::SOL_IPV6, [&[34, 35, 79, (7 << 32) | 34], &tables[..], &routes].concat()),
    ] {
        for option in &refused {
            let both = (set(true, level, *option), set(false, level, *option));
            assert_eq!(both, (EPERM, ALLOW), "{level}, {option}");
        }
        let last = if level == libc::SOL_IP { 63 } else { 78 };
        for other in (0..=last).filter(|option| !refused.contains(option)) {
            assert_eq!(set(true, level, other), ALLOW, "{level}, {other}");
        }
    }
    for level in [libc::SOL_SOCKET, libc::SOL_TCP, libc::SOL_UDP] {
        assert_eq!((set(true, level, 17), set(true, level, 64)), (ALLOW, ALLOW), "{level}");
    }
}
