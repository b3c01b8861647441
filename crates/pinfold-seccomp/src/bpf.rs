//! Classic BPF (seccomp(2)): a small assembler for the filter.

use std::ops::Range;

use super::code::{AND, JUMP_EQUAL, LOAD, NUMBER, RETURN, argument};
use super::table::Verdict;
use super::{Character, Range as Verdicts};

const JUMP_AT_LEAST: u16 = 0x35;
const JUMP_ANY_BIT: u16 = 0x45;

/// As [`NUMBER`].
const ARCHITECTURE: u32 = 4;

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;
/// Calls of the x32 ABI carry this bit and would slip past a list of x86-64 numbers.
const X32: u32 = 0x4000_0000;

const PASS: u32 = libc::SECCOMP_RET_ALLOW;
const TELL: u32 = libc::SECCOMP_RET_USER_NOTIF;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const fn errno(code: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | code as u32
}
const REFUSE: u32 = errno(libc::EPERM);
const ABSENT: u32 = errno(libc::ENOSYS);
/// Returns 0 without having done anything (seccomp(2), `SECCOMP_RET_ERRNO` with no error).
const PRETEND: u32 = errno(0);

/// CLONE_NEWTIME lies in the byte that clone(2) uses for the exit signal; for unshare(2) it is
/// a flag like the others.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;
const CLONE_NEWTIME: u32 = 0x80;

/// A program that is being written.
pub(super) struct Assembler {
    code: Vec<libc::sock_filter>,
    character: Character,
}

impl Assembler {
    pub(super) fn new(character: Character) -> Self {
        Self { code: Vec::new(), character }
    }

    pub(super) fn finish(self) -> Vec<libc::sock_filter> {
        self.code
    }

    fn emit(&mut self, code: u16, yes: u8, no: u8, value: u32) {
        self.code.push(libc::sock_filter { code, jt: yes, jf: no, k: value });
    }

    fn load(&mut self, offset: u32) {
        self.emit(LOAD, 0, 0, offset);
    }

    fn give(&mut self, value: u32) {
        self.emit(RETURN, 0, 0, value);
    }

    /// Returns `verdict` if the loaded word equals `value`, else goes on.
    fn give_if_equal(&mut self, value: u32, verdict: u32) {
        self.emit(JUMP_EQUAL, 0, 1, value);
        self.give(verdict);
    }

    /// Returns `verdict` if the loaded word has one of `bits`, else goes on.
    fn give_if_any(&mut self, bits: u32, verdict: u32) {
        self.emit(JUMP_ANY_BIT, 0, 1, bits);
        self.give(verdict);
    }

    /// Ends the process for calls of another architecture, or x32's; loads the number after.
    pub(super) fn check_architecture(&mut self) {
        self.load(ARCHITECTURE);
        self.emit(JUMP_EQUAL, 1, 0, NATIVE);
        self.give(KILL);
        self.load(NUMBER);
        if cfg!(target_arch = "x86_64") {
            self.emit(JUMP_AT_LEAST, 0, 1, X32);
            self.give(KILL);
        }
    }

    /// Emits the search for the loaded number over sorted ranges, the first of which is known
    /// to begin at or below it.
    pub(super) fn search(&mut self, ranges: &[Verdicts]) {
        self.search_below(u32::MAX, ranges);
    }

    fn search_below(&mut self, end: u32, ranges: &[Verdicts]) {
        let [first, rest @ ..] = ranges else { return };
        if rest.is_empty() {
            self.verdict(first.verdict, &(first.first..end));
            return;
        }
        let (low, high) = ranges.split_at(ranges.len() / 2);
        let at = self.code.len();
        self.emit(JUMP_AT_LEAST, 0, 0, high[0].first);
        self.search_below(high[0].first, low);
        let distance = self.code.len() - at - 1;
        self.search_below(end, high);
        self.jump_over(at, distance);
    }

    /// Makes the jump at `at` skip `distance` instructions when it is taken. A conditional jump
    /// reaches 255: a longer one goes by way of an unconditional jump next to it.
    fn jump_over(&mut self, at: usize, distance: usize) {
        const JUMP: u16 = 0x05;
        if let Ok(short) = u8::try_from(distance) {
            self.code[at].jt = short;
        } else {
            self.code[at].jf = 1;
            let far = libc::sock_filter { code: JUMP, jt: 0, jf: 0, k: distance as u32 };
            self.code.insert(at + 1, far);
        }
    }

    /// Emits a verdict for these numbers.
    fn verdict(&mut self, verdict: Verdict, numbers: &Range<u32>) {
        match verdict {
            Verdict::Allow => self.give(PASS),
            Verdict::Owner => self.owner(numbers),
            Verdict::Leases => self.leases(),
            Verdict::Pretend => self.give(PRETEND),
            Verdict::Refuse | Verdict::Nested => self.give(REFUSE),
            Verdict::Absent => self.give(ABSENT),
            Verdict::Namespaces => self.namespaces(),
            Verdict::Families => self.families(numbers),
            Verdict::Terminal => self.requests(),
            Verdict::Personality => self.personality(),
            Verdict::Init => self.init(numbers),
            Verdict::Setuid | Verdict::Nodes | Verdict::Queues => self.modes(numbers),
            Verdict::Moves => self.give(TELL),
            Verdict::Renames => self.renames(),
            Verdict::Empty => self.empty(),
            Verdict::Options => self.options(),
            Verdict::Attributes => self.give(errno(libc::EOPNOTSUPP)),
        }
    }

    /// Filters clone(2) and unshare(2): the first argument holds the flags on both architectures. Nested sandboxes get a
    /// namespace of control groups from a kernel of their own alone: who is root over one can mount their file system, which
    /// shows the names of the host's, and those that belong to the user can be written to.
    fn namespaces(&mut self) {
        if self.character.nested {
            if !self.character.own_kernel {
                self.load(argument(0));
                self.give_if_any(libc::CLONE_NEWCGROUP as u32, REFUSE);
            }
            return self.give(PASS);
        }
        self.emit(JUMP_EQUAL, 0, 3, libc::SYS_unshare as u32);
        self.load(argument(0));
        self.give_if_any(CLONE_NEWTIME, REFUSE);
        self.load(argument(0));
        self.give_if_any(NEW_NAMESPACES, REFUSE);
        self.give(PASS);
    }

    /// Filters socket(2) and socketpair(2): the families that exist, of netlink its routing, and of the internet
    /// [`INTERNET`]. AF_VSOCK, for one, has no namespace: it would reach the host from an empty network. Only AF_UNIX
    /// makes pairs.
    fn families(&mut self, numbers: &Range<u32>) {
        let absent = errno(libc::EAFNOSUPPORT);
        // On aarch64 the two numbers follow each other.
        if numbers.contains(&(libc::SYS_socketpair as u32)) {
            self.emit(JUMP_EQUAL, 0, 4, libc::SYS_socketpair as u32);
            self.load(argument(0));
            self.give_if_equal(libc::AF_UNIX as u32, PASS);
            self.give(absent);
        }
        if !numbers.contains(&(libc::SYS_socket as u32)) {
            return self.give(absent);
        }
        self.load(argument(0));
        self.give_if_equal(libc::AF_UNIX as u32, PASS);
        self.emit(JUMP_EQUAL, 0, 4, libc::AF_NETLINK as u32);
        self.load(argument(2));
        self.give_if_equal(libc::NETLINK_ROUTE as u32, PASS);
        self.give(absent);
        self.emit(JUMP_EQUAL, 2, 0, libc::AF_INET as u32);
        self.emit(JUMP_EQUAL, 1, 0, libc::AF_INET6 as u32);
        self.give(absent);
        self.load(argument(1));
        self.emit(AND, 0, 0, SOCKET_TYPE);
        // It needs a capability over the network, and no module is loaded for a protocol.
        self.give_if_equal(libc::SOCK_RAW as u32, PASS);
        for (kind, protocols) in INTERNET {
            let skipped = 2 * protocols.len() + 2;
            self.emit(JUMP_EQUAL, 0, skipped as u8, *kind as u32);
            self.load(argument(2));
            for protocol in *protocols {
                self.give_if_equal(*protocol as u32, PASS);
            }
            self.give(errno(libc::EPROTONOSUPPORT));
        }
        self.give(errno(libc::ESOCKTNOSUPPORT));
    }

    /// Filters ioctl(2): nothing types into a terminal, even into one's own. No directory gets encrypted: without
    /// its key nobody can judge the names in it, and later sessions could show them by bringing the key
    /// back. No file system makes a snapshot, which would hold what masks hide. [`BRIDGES`] are unknown.
    fn requests(&mut self) {
        self.load(argument(1));
        for request in [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD] {
            self.give_if_equal(request as u32, REFUSE);
        }
        for request in ENCRYPTION {
            self.give_if_equal(request, REFUSE);
        }
        // Copies of files, which all file systems have taken over from Btrfs.
        for request in [libc::FICLONE, libc::FICLONERANGE, FIDEDUPERANGE] {
            self.give_if_equal(request as u32, PASS);
        }
        self.emit(AND, 0, 0, !1);
        for pair in BRIDGES {
            self.give_if_equal(pair, errno(libc::ENOPKG));
        }
        self.emit(AND, 0, 0, 0xff00);
        for kind in [BTRFS, BCACHEFS] {
            self.give_if_equal(kind << 8, REFUSE);
        }
        self.give(PASS);
    }

    /// Filters fcntl(2): a lease or a delegation on a file that was granted makes the host's programs wait for
    /// its holder, up to `/proc/sys/fs/lease-break-time` for each call. Commands that came later are not
    /// known to be harmless.
    fn leases(&mut self) {
        let absent = errno(libc::EINVAL);
        self.load(argument(1));
        for command in [libc::F_SETLEASE, libc::F_NOTIFY] {
            self.give_if_equal(command as u32, absent);
        }
        self.emit(JUMP_AT_LEAST, 0, 1, F_GETDELEG);
        self.give(absent);
        self.give(PASS);
    }

    /// Filters chown(2), setuid(2) and the like: the only ids there are, or none.
    fn owner(&mut self, numbers: &Range<u32>) {
        const UNCHANGED: u32 = u32::MAX;
        let Some((user, group)) = self.character.ids else { return self.give(PASS) };
        for (number, users, groups) in OWNERS.iter().filter(|(n, ..)| numbers.contains(n)) {
            let at = self.code.len();
            self.emit(JUMP_EQUAL, 0, 0, *number);
            let users = users.clone().map(|index| (index, user));
            for (index, id) in users.chain(groups.clone().map(|index| (index, group))) {
                self.load(argument(index));
                self.emit(JUMP_EQUAL, 2, 0, id);
                self.emit(JUMP_EQUAL, 1, 0, UNCHANGED);
                self.give(REFUSE);
            }
            self.give(PASS);
            self.code[at].jf = (self.code.len() - at - 1) as u8;
        }
        self.give(PASS);
    }

    fn personality(&mut self) {
        const QUERY: u32 = 0xffff_ffff;
        self.load(argument(0));
        for persona in [0, libc::ADDR_NO_RANDOMIZE as u32, QUERY] {
            self.give_if_equal(persona, PASS);
        }
        self.give(REFUSE);
    }

    /// Filters calls that reach init. It has the command's user id, so these would reach it although it
    /// cannot be traced. A
    /// negative number means nothing to them: 1 is the only name of init.
    fn init(&mut self, numbers: &Range<u32>) {
        const INIT: u32 = 1;
        for (number, who, every) in OF_PROCESSES.iter().filter(|(n, ..)| numbers.contains(n)) {
            let at = self.code.len();
            self.emit(JUMP_EQUAL, 0, 0, *number);
            self.load(argument(*who));
            self.give_if_equal(INIT, REFUSE);
            // Moves are made by a thread of init's.
            if self.character.moves && *number == libc::SYS_prlimit64 as u32 {
                // A limit is the whole process's, by the number of any of its threads. Limits are set
                // by a process for itself; others may be asked for.
                self.emit(JUMP_EQUAL, 6, 0, 0);
                for half in [argument(2), argument(2) + 4] {
                    self.load(half);
                    self.emit(JUMP_EQUAL, 1, 0, 0);
                    self.give(REFUSE);
                }
            }
            if let Some(every) = every {
                self.load(argument(0));
                self.give_if_equal(*every, REFUSE);
            }
            self.give(PASS);
            self.code[at].jf = (self.code.len() - at - 1) as u8;
        }
        self.give(REFUSE);
    }

    /// Filters renameat2(2): init itself moves files by it with a flag, and must not be notified of that.
    fn renames(&mut self) {
        self.load(argument(4));
        if !self.character.leaves_nothing {
            self.give_if_any(libc::RENAME_WHITEOUT, REFUSE);
        }
        if self.character.moves {
            self.give_if_equal(0, TELL);
        }
        self.give(PASS);
    }

    /// Filters write(2): the last argument holds the number of bytes.
    fn empty(&mut self) {
        self.load(argument(2));
        self.emit(JUMP_EQUAL, 1, 0, 0);
        self.give(PASS);
        self.load(argument(2) + 4);
        self.give_if_equal(0, PRETEND);
        self.give(PASS);
    }

    /// Filters setsockopt(2): of TCP [`UPPER`] are unknown, and nested sandboxes do not get [`TABLES`].
    fn options(&mut self) {
        self.load(argument(1));
        self.emit(JUMP_EQUAL, 0, 2 * UPPER.len() as u8 + 1, libc::SOL_TCP as u32);
        self.load(argument(2));
        for option in UPPER {
            self.give_if_equal(option, errno(libc::ENOPROTOOPT));
        }
        if self.character.nested {
            return self.tables();
        }
        self.give(PASS);
    }

    /// Filters options of levels: who is root over a network of its own could replace its tables of packet filters, set policies of
    /// IPsec and route multicasts, in code of the kernel's that nothing else of a sandbox reaches. (What else reaches it is behind
    /// families of netlink that are refused.)
    fn tables(&mut self) {
        for (level, options, first_other) in TABLES {
            let at = self.code.len();
            self.load(argument(1));
            self.emit(JUMP_EQUAL, 0, 0, level as u32);
            self.load(argument(2));
            for option in options {
                self.give_if_equal(*option, REFUSE);
            }
            self.emit(JUMP_AT_LEAST, 0, 1, first_other);
            self.give(REFUSE);
            self.give(PASS);
            self.code[at + 1].jf = (self.code.len() - at - 2) as u8;
        }
        self.give(PASS);
    }

    /// Filters modes of files. The mode is in another argument for each call; open(2) has one only when it creates.
    fn modes(&mut self, numbers: &Range<u32>) {
        const CREATES: u32 = (libc::O_CREAT | libc::O_TMPFILE) as u32;
        for (number, mode, flags) in MODES.iter().filter(|(n, ..)| numbers.contains(n)) {
            // Skips this call's block when the number is another's.
            let at = self.code.len();
            self.emit(JUMP_EQUAL, 0, 0, *number);
            if let Some(flags) = flags {
                self.load(argument(*flags));
                self.emit(JUMP_ANY_BIT, 1, 0, CREATES & !(libc::O_DIRECTORY as u32));
                self.give(PASS);
            }
            self.load(argument(*mode));
            self.give_if_any(self.refused_modes(*number), REFUSE);
            self.give(PASS);
            self.code[at].jf = (self.code.len() - at - 1) as u8;
        }
        self.give(REFUSE);
    }

    /// Bits that the mode of a call may not have.
    fn refused_modes(&self, number: u32) -> u32 {
        let of = |is: bool, bits: u32| if is { bits } else { 0 };
        let Character { leaves_nothing, root_by_name, owner_is_other, .. } = self.character;
        of(!root_by_name && !leaves_nothing, libc::S_ISUID)
            | of(!root_by_name && owner_is_other, libc::S_ISGID)
            | of(!leaves_nothing && NODES.contains(&number), DEVICE)
    }
}

/// Calls that make nodes: their mode has a file's type, and what has this bit is a device.
#[cfg(target_arch = "x86_64")]
const NODES: [u32; 2] = [libc::SYS_mknod as u32, libc::SYS_mknodat as u32];
#[cfg(target_arch = "aarch64")]
const NODES: [u32; 1] = [libc::SYS_mknodat as u32];
const DEVICE: u32 = libc::S_IFCHR & libc::S_IFBLK;

/// Bits of socket(2)'s second argument that are the type (`SOCK_TYPE_MASK`, linux/net.h).
const SOCKET_TYPE: u32 = 0xf;
/// Types of sockets of the internet, and their protocols. For others any user makes the kernel load a module that nothing
/// on the machine uses (`inet_create`, net/ipv4/af_inet.c), such as that of SCTP, or reaches rarely tried code, such as that of
/// multipath TCP; SOCK_PACKET is a packet socket (`__sock_create`, net/socket.c).
const INTERNET: &[(i32, &[i32])] = &[
    (libc::SOCK_STREAM, &[0, libc::IPPROTO_TCP]),
    (libc::SOCK_DGRAM, &[0, libc::IPPROTO_UDP, libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6]),
];

/// TCP_ULP and TCP_AO_ADD_KEY (linux/tcp.h). The first has the kernel speak TLS or SMC on a stream; the second loads any
/// module for a hash, whose name the caller chooses (`tcp_ao_parse_crypto`, net/ipv4/tcp_ao.c, Linux 6.7).
const UPPER: [u32; 2] = [libc::TCP_ULP as u32, 38];

/// Options that need root over a network: level, single ones, and the first one from which on all are.
///
/// IP_IPSEC_POLICY and IP_XFRM_POLICY (linux/in.h), IPV6_IPSEC_POLICY and IPV6_XFRM_POLICY (linux/in6.h) are policies of IPsec. From 64 on
/// there are tables of packet filters of IPv4, ARP and bridges, routes of multicasts, and virtual servers (linux/netfilter_ipv4/ip_tables.h,
/// linux/mroute.h, linux/ip_vs.h). IPv6 has options of its own up to 78 (IPV6_FREEBIND), among them the filters' 64 and 65.
const TABLES: [(i32, &[u32], u32); 2] =
    [(libc::SOL_IP, &[16, 17], 64), (libc::SOL_IPV6, &[34, 35, 64, 65], 79)];

/// Requests of linux/fscrypt.h: FS_IOC_SET_ENCRYPTION_POLICY, FS_IOC_ADD_ENCRYPTION_KEY,
/// FS_IOC_REMOVE_ENCRYPTION_KEY and FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS.
const ENCRYPTION: [u32; 4] = [0x800c_6613, 0xc050_6617, 0xc040_6618, 0xc040_6619];
/// The first of each pair of requests: SIOCGIFBR and SIOCSIFBR, SIOCADDDLCI and SIOCDELDLCI, SIOCGIFVLAN and SIOCSIFVLAN, SIOCBRADDBR
/// and SIOCBRDELBR (linux/sockios.h). With them any user makes the kernel load the module of bridges, Frame Relay or VLANs
/// (`sock_ioctl`, net/socket.c).
const BRIDGES: [u32; 4] = [0x8940, 0x8980, 0x8982, 0x89a0];
/// linux/fs.h
const FIDEDUPERANGE: u64 = 0xc018_9436;
/// Types of requests (BTRFS_IOCTL_MAGIC, linux/btrfs.h; the same of Bcachefs).
const BTRFS: u32 = 0x94;
const BCACHEFS: u32 = 0xbc;

/// The first command that is not known (linux/fcntl.h, F_LINUX_SPECIFIC_BASE + 15, Linux 6.19); F_SETDELEG is
/// the next.
const F_GETDELEG: u32 = 1024 + 15;

/// Calls that take ids of users and groups: number, arguments of the users, arguments of the groups.
const OWNERS: &[(u32, Range<u32>, Range<u32>)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chown as u32, 1..2, 2..3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_lchown as u32, 1..2, 2..3),
    (libc::SYS_fchown as u32, 1..2, 2..3),
    (libc::SYS_fchownat as u32, 2..3, 3..4),
    (libc::SYS_setuid as u32, 0..1, 0..0),
    (libc::SYS_setgid as u32, 0..0, 0..1),
    (libc::SYS_setreuid as u32, 0..2, 0..0),
    (libc::SYS_setregid as u32, 0..0, 0..2),
    (libc::SYS_setresuid as u32, 0..3, 0..0),
    (libc::SYS_setresgid as u32, 0..0, 0..3),
];

/// Calls that act on a process by its id: number, argument of the id, and what the first
/// argument is when all processes of a user are meant (getpriority(2), ioprio_set(2)).
const OF_PROCESSES: &[(u32, u32, Option<u32>)] = &[
    (libc::SYS_prlimit64 as u32, 0, None),
    (libc::SYS_sched_setparam as u32, 0, None),
    (libc::SYS_sched_setscheduler as u32, 0, None),
    (libc::SYS_sched_setaffinity as u32, 0, None),
    (libc::SYS_sched_setattr as u32, 0, None),
    (libc::SYS_setpgid as u32, 1, None),
    (libc::SYS_setpriority as u32, 1, Some(libc::PRIO_USER)),
    (libc::SYS_ioprio_set as u32, 1, Some(IOPRIO_WHO_USER)),
];
/// linux/ioprio.h
const IOPRIO_WHO_USER: u32 = 3;

/// Calls that take a mode: number, argument of the mode, argument of the flags if any.
const MODES: &[(u32, u32, Option<u32>)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open as u32, 2, Some(1)),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat as u32, 1, None),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod as u32, 1, None),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod as u32, 1, None),
    (libc::SYS_openat as u32, 3, Some(2)),
    (libc::SYS_fchmod as u32, 1, None),
    (libc::SYS_fchmodat as u32, 2, None),
    (SYS_FCHMODAT2, 2, None),
    (libc::SYS_mknodat as u32, 2, None),
    (libc::SYS_mq_open as u32, 2, Some(1)),
];
/// The same number on every architecture (Linux 6.6).
const SYS_FCHMODAT2: u32 = 452;
