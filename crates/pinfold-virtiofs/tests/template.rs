//! Machines that are restored from one that was booted once: what they share, what they must not, and a template that is
//! damaged. Init in the guest is this very program.
//!
//! One test has all machines, because each that boots takes seconds of processor time.

#[path = "../../pinfold-vm/tests/support/mod.rs"]
mod support;

mod sandbox;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio as Streams};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pinfold_boundary::{LaunchPlan, Stdio, StdioEnd};
use pinfold_vm::{Spec, guest};
use pinfold_wire::{Ended, Order};

use sandbox::{ended, launch, nothing_of_ours_is_left, pipe, plan, program};
use support::Failed;

/// Says what no two guests of a template may share.
const UNIQUE: &str = "cat /proc/sys/kernel/random/boot_id; head -c 16 /dev/urandom | od -An -tx1; \
                      grep -F '[stack]' /proc/self/maps; cat /proc/sys/kernel/random/uuid; date +%s.%N; hostname";

fn main() -> Result<(), Failed> {
    guest::run_as_first();
    if pinfold_boundary::container::run_as_init() {
        return Ok(());
    }
    let words: Vec<String> = std::env::args().collect();
    if let [_, word, kernel, initramfs, hostname, script] = words.as_slice()
        && word == "--session"
    {
        return session(&spec_of(kernel.into(), initramfs.into()), hostname, script);
    }
    support::run("restored_machines_share_only_their_template", machines_share_only_their_template)
}

fn spec_of(kernel: PathBuf, initramfs: PathBuf) -> Spec {
    Spec { kernel, initramfs, memory: 512, cpus: 1, share: None, changes: 0, has_tree: true }
}

/// The directory for templates of what lies there.
fn templates(spec: &Spec) -> PathBuf {
    spec.kernel.with_file_name("templates")
}

/// Runs a script in a machine, and prints what it says, what the user should know, and how long it took.
fn session(spec: &Spec, hostname: &str, script: &str) -> Result<(), Failed> {
    let workspace = tempfile::tempdir()?;
    let workspace = workspace.path().canonicalize()?;
    let qemu = support::qemu()?;
    let start = Instant::now();
    let plan = LaunchPlan { hostname: hostname.to_owned(), ..plan(&workspace)? };
    let directory = templates(spec);
    let mut inside = launch(&qemu, spec, Some(&directory), plan)?;
    let (mut output, theirs) = pipe()?;
    let null = File::open("/dev/null")?;
    let ends =
        [StdioEnd::Descriptor(null.into()), StdioEnd::Descriptor(theirs.into()), StdioEnd::Same(1)];
    inside.command(&program(script, &workspace)?, Stdio::plain(ends))?;
    inside.seal(Vec::new()).map_err(|error| format!("{error}; {:?}", error.hint()))?;
    eprint!("{hostname}: init after {:?}, ", start.elapsed());
    inside.order(&Order::Start(Vec::new()))?;
    let mut said = String::new();
    output.read_to_string(&mut said)?;
    assert_eq!(ended(&inside)?, Some(Ended::Code(0)), "{said}");
    let note = inside.note().map(str::to_owned);
    inside.reap()?;
    drop(inside);
    print!("{said}");
    println!("note: {note:?}");
    eprintln!("gone after {:?}", start.elapsed());
    nothing_of_ours_is_left()
}

/// Starts a process for one session: each has one thread when it begins.
#[expect(clippy::disallowed_methods, reason = "a test starts the supervisors of its machines")]
fn begin(spec: &Spec, hostname: &str, script: &str) -> Result<Child, Failed> {
    let mut supervisor = Command::new("/proc/self/exe");
    supervisor.arg("--session").args([&spec.kernel, &spec.initramfs]).args([hostname, script]);
    supervisor.env("OF_THE_CALLER", hostname);
    Ok(supervisor.stdout(Streams::piped()).stderr(Streams::piped()).spawn()?)
}

/// Runs a session to its end, and returns what it prints.
fn run(spec: &Spec, script: &str) -> Result<String, Failed> {
    finish(begin(spec, "machine", script)?)
}

fn finish(session: Child) -> Result<String, Failed> {
    let output = session.wait_with_output()?;
    let (said, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    print!("{errors}");
    if output.status.success() { Ok(said.into_owned()) } else { Err(errors.into()) }
}

fn machines_share_only_their_template() -> Result<(), Failed> {
    let directory = tempfile::tempdir()?;
    let Some((_, spec)) = support::prepare(directory.path(), true)? else { return Ok(()) };
    killed_while_it_is_kept(&spec)?;
    let template = made_by_a_session_that_leaves_nothing(&spec)?;
    let before = fs::read(&template)?;
    println!("template: {} MiB", before.len() >> 20);
    each_is_unlike_the_others(&spec)?;
    no_machine_reaches_it(&spec, &template)?;
    assert!(fs::read(&template)? == before, "a machine has changed its template");
    damage_is_mended(&spec, &template)?;
    state_that_qemu_refuses_is_forgotten(&spec, &template)?;
    session_starts_where_none_can_be_kept(&spec)
}

/// The session that makes the template has a word as its host name, in its script, a file and its supervisor's environment.
/// The template has it nowhere.
#[expect(clippy::disallowed_methods, reason = "a test looks into a file of its own")]
fn made_by_a_session_that_leaves_nothing(spec: &Spec) -> Result<PathBuf, Failed> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let word = format!("word-{time}");
    let made = finish(begin(spec, &word, &format!("echo {word} >file; cat file; hostname"))?)?;
    assert_eq!(made, format!("{word}\n{word}\nnote: None\n"));
    let template = only_template(spec)?;
    let has = |word: &str| {
        let found = Command::new("grep").args(["-c", "-a", "-F", word]).arg(&template).output();
        found.map(|output| output.stdout != b"0\n")
    };
    assert!(has("pinfold")? && !has(&word)?, "a word of the session is in the template");
    Ok(template)
}

/// A start that is killed while it writes a template leaves none.
fn killed_while_it_is_kept(spec: &Spec) -> Result<(), Failed> {
    let session = Held(begin(spec, "killed", ":")?);
    let names = || -> Vec<PathBuf> {
        let entries = fs::read_dir(templates(spec)).into_iter().flatten();
        entries.flatten().map(|entry| entry.path()).collect()
    };
    let is_unfinished = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".new-"))
    };
    until("the template is being written", || names().iter().any(is_unfinished))?;
    kill_with_machines(session)?;
    let left = names();
    assert!(matches!(left.as_slice(), [path] if is_unfinished(path)), "{left:?}");
    Ok(fs::remove_file(&left[0])?)
}

fn until(what: &str, is: impl Fn() -> bool) -> Result<(), Failed> {
    let start = Instant::now();
    while !is() {
        if start.elapsed() > Duration::from_secs(120) {
            return Err(what.into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Two machines at once, and one later, have the time of the host, and nothing that is random in common.
fn each_is_unlike_the_others(spec: &Spec) -> Result<(), Failed> {
    let both = [begin(spec, "one", UNIQUE)?, begin(spec, "two", UNIQUE)?];
    let [one, two] = both.map(finish);
    let later = finish(begin(spec, "three", UNIQUE)?)?;
    let all = [one?, two?, later];
    for (said, hostname) in all.iter().zip(["one", "two", "three"]) {
        let lines: Vec<&str> = said.lines().collect();
        let [_, _, _, _, time, name, note] = lines.as_slice() else {
            return Err(said.clone().into());
        };
        assert_eq!((*name, *note), (hostname, "note: None"));
        let own = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        let time: f64 = time.parse()?;
        // The clock runs when the guest has answered, and the others take a while.
        assert!(time <= own && own - time < 60.0, "{time} at {own}");
    }
    for line in 0..4 {
        let said: BTreeSet<_> = all.iter().filter_map(|said| said.lines().nth(line)).collect();
        assert_eq!(said.len(), all.len(), "{said:?}");
    }
    Ok(())
}

/// A machine's QEMU has neither the template nor anything of it but a copy. All ends with the supervisor.
fn no_machine_reaches_it(spec: &Spec, template: &Path) -> Result<(), Failed> {
    let mut session = Held(begin(spec, "held", "sleep 1000")?);
    let mut errors = session.0.stderr.take().ok_or("no output")?;
    errors.read_exact(&mut [0; 4])?;
    let processes = machines_of(&session.0)?;
    let [qemu] = processes.as_slice() else { return Err(format!("{processes:?}").into()) };
    let number = fs::metadata(template)?.ino().to_string();
    for entry in fs::read_dir(qemu.join("fd"))? {
        let path = entry?.path();
        let about = fs::metadata(&path).map(|file| file.ino().to_string());
        assert_ne!(about.unwrap_or_default(), number, "{}", path.display());
    }
    let maps = fs::read_to_string(qemu.join("maps"))?;
    assert!(!maps.contains("templates"), "{maps}");
    let memory = maps.lines().find(|line| line.contains("/memfd:machine"));
    assert!(memory.is_some_and(|line| line.contains(" rw-s ")), "{maps}");
    assert!(!qemu.join("root").join(template.strip_prefix("/")?).exists());
    kill_with_machines(session)
}

/// The directories in `/proc` of the machines of a session. Others of this user's may run at the same time.
fn machines_of(session: &Child) -> Result<Vec<PathBuf>, Failed> {
    let is_below = |path: &PathBuf| {
        let mut process = path.clone();
        while let Ok(status) = fs::read_to_string(process.join("status")) {
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:\t"));
            match parent {
                Some(parent) if parent == session.id().to_string() => return true,
                Some(parent) if parent != "0" => process = Path::new("/proc").join(parent),
                _ => return false,
            }
        }
        false
    };
    Ok(support::processes()?.into_iter().filter(is_below).collect())
}

/// A supervisor that is killed at the latest when the test fails.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills a supervisor, which ends its machines.
fn kill_with_machines(session: Held) -> Result<(), Failed> {
    let machines = machines_of(&session.0)?;
    drop(session);
    let has_ended = |path: &PathBuf| {
        fs::read_to_string(path.join("stat")).map_or(true, |stat| stat.contains(") Z "))
    };
    until("QEMU has ended", || machines.iter().all(has_ended))
}

/// A template that is cut off, or has another bit somewhere in the memory, is made again.
fn damage_is_mended(spec: &Spec, template: &Path) -> Result<(), Failed> {
    let number = || Ok::<_, Failed>(fs::metadata(template)?.ino());
    let damages: [fn(&mut Vec<u8>); 2] = [
        |bytes| bytes.truncate(bytes.len() / 2),
        |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        },
    ];
    for damage in damages {
        let mut bytes = fs::read(template)?;
        damage(&mut bytes);
        fs::write(template, bytes)?;
        let damaged = number()?;
        assert_eq!(run(spec, "echo on")?, "on\nnote: None\n");
        let made = number()?;
        assert_ne!(made, damaged);
        assert_eq!(run(spec, "echo on")?, "on\nnote: None\n");
        assert_eq!(number()?, made, "it was made once more");
    }
    Ok(())
}

/// An invalid state of devices under right sums is an error that says what to do, and is gone then.
fn state_that_qemu_refuses_is_forgotten(spec: &Spec, template: &Path) -> Result<(), Failed> {
    let mut bytes = fs::read(template)?;
    let number = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    let (parts, devices, name) = (number(16), number(24), number(32));
    let start = 40 + parts as usize * 16;
    let end = start + devices as usize + name as usize;
    bytes[start..start + 8].fill(0);
    let sum = crc32(&bytes[..end]);
    bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
    fs::write(template, bytes)?;
    let error = run(spec, ":").err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("QEMU's monitor") && error.contains("is made again"), "{error}");
    assert!(!template.exists());
    assert_eq!(run(spec, "echo on")?, "on\nnote: None\n");
    Ok(())
}

/// CRC-32 of IEEE 802.3, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

/// A full disk, or a file in the place of the directory, costs later starts time, and nothing else.
fn session_starts_where_none_can_be_kept(spec: &Spec) -> Result<(), Failed> {
    fs::remove_dir_all(templates(spec))?;
    fs::write(templates(spec), "")?;
    let said = run(spec, "echo on")?;
    assert!(
        said.starts_with("on\nnote: Some(")
            && said.contains("cannot keep a template of the machine in "),
        "{said}"
    );
    fs::remove_file(templates(spec))?;
    // A link in its place leads to files of the user's, which stay as they are.
    let other = templates(spec).with_file_name("other");
    fs::create_dir(&other)?;
    fs::write(other.join("0123456789abcdef"), "kept")?;
    std::os::unix::fs::symlink(&other, templates(spec))?;
    let said = run(spec, "echo on")?;
    assert!(said.contains("no directory of yours"), "{said}");
    assert_eq!(fs::read(other.join("0123456789abcdef"))?, b"kept");
    assert_eq!(fs::read_dir(&other)?.count(), 1);
    fs::remove_file(templates(spec))?;
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: a full disk: root alone mounts a small one");
        return Ok(());
    }
    fs::create_dir(templates(spec))?;
    let said = on_a_full_disk(spec)?;
    assert!(said.contains("No space left on device"), "{said}");
    // What was begun there is gone.
    assert!(said.ends_with("\n0\n"), "{said}");
    Ok(())
}

/// Runs a session whose templates lie on a disk of a megabyte. Returns what it prints, and how many files there are then.
#[expect(clippy::disallowed_methods, reason = "a test starts the supervisors of its machines")]
fn on_a_full_disk(spec: &Spec) -> Result<String, Failed> {
    let script = r#"mount -t tmpfs -o size=1m,mode=700 small "$1" && "$2" --session "$3" "$4" full : && ls -A "$1" | wc -l"#;
    let own = std::env::current_exe()?;
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", script, "sh"]).args([&templates(spec), &own]);
    shell.args([&spec.kernel, &spec.initramfs]).stdout(Streams::piped()).stderr(Streams::piped());
    finish(shell.spawn()?)
}

/// Returns the template, which is the only file in its directory, closed to others.
fn only_template(spec: &Spec) -> Result<PathBuf, Failed> {
    let names = fs::read_dir(templates(spec))?.map(|entry| Ok(entry?.path()));
    let names = names.collect::<std::io::Result<Vec<_>>>()?;
    let [name] = names.as_slice() else { return Err(format!("{names:?}").into()) };
    let mode = |path: &Path| Ok::<_, Failed>(fs::metadata(path)?.mode() & 0o777);
    assert_eq!((mode(name)?, mode(&templates(spec))?), (0o600, 0o700));
    Ok(name.clone())
}
