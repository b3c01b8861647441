//! I7: for random policies over random trees, what the kernel answers inside is what the authority
//! decided, behind every boundary that this machine has, at each Landlock ABI.
//!
//! A harness of its own, because a sandbox is only made by a process with one thread. Without
//! variables the seeds are always the same: those in `seeds.txt`, then [`CASES`] from [`FIRST`] on.
//! `cargo xtask hunt` tries others. The case that fails prints its seed;
//! `PINFOLD_VERDICTS_SEED=<seed> PINFOLD_VERDICTS_CASES=1` repeats it.

#![expect(clippy::expect_used, reason = "what a test makes up itself is valid")]

mod judge;
mod probe;
mod world;

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use pinfold_boundary::container::{self, Container, Engine};
use pinfold_boundary::namespace::{Namespace, inside_ids};
use pinfold_boundary::{
    Boundary, Entry, Identity, Landlock, LaunchError, LaunchPlan, Place, Program, ResourceLimits,
    Session, Stdio, StdioEnd, managed,
};
use pinfold_host::launcher::Launcher;
use pinfold_host::wrappers::Wrappers;
use pinfold_policy::authority::Authority;
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_protect::mounts;
use pinfold_testkit::podman::end_podman;
use pinfold_wire::{Ended, Order, Report};

use crate::judge::{Expect, Judge};
use crate::probe::{Answer, Op, Request};
use crate::world::{Dice, PROBER, World, policy};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Those of containers that something else manages.
const MANAGED: [&str; 2] = ["container (docker)", "container (podman)"];
/// Those that take paths for text, with the one of them that has a kernel of its own.
const OF_TEXT: [&str; 4] = ["container (docker)", "container (podman)", "container (youki)", RUNSC];
const RUNSC: &str = "container (runsc)";
const TEST: &str = "the_kernel_gives_the_authoritys_verdict";
/// Cases for each kind of caller, besides [`FOUND`].
const CASES: u64 = 300;
/// The seed of the first of them, chosen once. The others count up from it.
const FIRST: u64 = 0x7069_6e66_6f6c_6400;
/// Seeds that failed once, a line each.
const FOUND: &str = include_str!("seeds.txt");
/// One of so many cases is for container engines, too.
const ENGINES_SEE: usize = 10;
/// The newest, and those that differ in what files need (landlock(7)); 0 is the mounts alone.
const ABIS: [u32; 6] = [u32::MAX, 6, 4, 3, 2, 0];
/// An ordinary user for a caller who is root: the one that other tests make, to whom an engine's daemon is
/// open, or nobody.
fn ordinary() -> (u32, u32) {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = users.lines().find_map(|line| line.strip_prefix("pinfold-test:x:"));
    let mut fields = line.unwrap_or_default().split(':').filter_map(|field| field.parse().ok());
    let id = fields.next().zip(fields.next());
    id.unwrap_or((65_534, 65_534))
}

fn main() -> ExitCode {
    if container::run_as_init() || managed::run_as_init() {
        return ExitCode::SUCCESS;
    }
    // A script inside is executed with its path, which need not be text.
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    // As in the usual harness, what is no flag is a part of the names of the tests to run.
    let mut filters =
        arguments.iter().filter_map(|word| word.to_str()).filter(|word| !word.starts_with('-'));
    let wanted = filters.clone().next().is_none() || filters.any(|word| TEST.contains(word));
    let done = match arguments.first().and_then(|first| first.to_str()) {
        // What a script inside executed.
        Some("nothing") => Ok(()),
        Some("probe") => probe::main().map_err(Into::into),
        Some("as-ordinary-user") => all_cases(),
        _ if has("--list") => {
            if !has("--ignored") {
                println!("{TEST}: test");
            }
            Ok(())
        }
        _ if wanted => test(),
        _ => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn test() -> Outcome<()> {
    if !Namespace.probe().usable() {
        println!("skipped: `pinfold doctor` says why this machine has no namespace boundary");
        return Ok(());
    }
    all_cases()?;
    if rustix::process::geteuid().is_root() {
        again_as_ordinary_user()?;
    }
    println!("test result: ok. 1 passed; 0 failed");
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the test itself, as another user")]
fn again_as_ordinary_user() -> Outcome<()> {
    use std::os::unix::process::CommandExt;
    let directory = tempfile::tempdir()?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
    let own = copy_of_this_program(directory.path())?;
    let mut test = std::process::Command::new(own);
    let ((uid, gid), home) = (ordinary(), directory.path().join("home"));
    fs::create_dir(&home)?;
    std::os::unix::fs::chown(&home, Some(uid), Some(gid))?;
    test.arg("as-ordinary-user").uid(uid).gid(gid).current_dir("/").env("HOME", home);
    // Of root's storage nothing is another's.
    test.env_remove("CONTAINERS_STORAGE_CONF").env_remove("XDG_RUNTIME_DIR");
    let status = test.status()?;
    end_podman(directory.path());
    if status.success() { Ok(()) } else { Err("failed as an ordinary user".into()) }
}

fn all_cases() -> Outcome<()> {
    let seeds = seeds()?;
    let as_root = rustix::process::geteuid().is_root();
    if as_root {
        own_mounts()?;
    }
    let directory = tempfile::tempdir()?;
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
    let place = fs::canonicalize(directory.path())?;
    let prober = copy_of_this_program(&place)?;
    let boundaries = boundaries(&prober, as_root)?;
    let mut asked = vec![0; boundaries.len()];
    for (case, &seed) in seeds.iter().enumerate() {
        let base = place.join(format!("case{case}"));
        fs::create_dir(&base)?;
        // An engine takes longer to start, and has less to decide by itself.
        let all = case % ENGINES_SEE == 0;
        let some = boundaries.iter().take(if all { boundaries.len() } else { 1 });
        for (boundary, asked) in some.zip(&mut asked) {
            *asked +=
                one_case(seed, &base, (boundary.as_ref(), &prober), as_root).map_err(|error| {
                    let name = boundary.name();
                    format!(
                        "{name}: {error}\nrepeat with PINFOLD_VERDICTS_SEED={seed} \
                         PINFOLD_VERDICTS_CASES=1"
                    )
                })?;
            fs::remove_dir_all(&base)?;
            fs::create_dir(&base)?;
        }
        fs::remove_dir(&base)?;
    }
    let who = if as_root { "root" } else { "an ordinary user" };
    for (boundary, asked) in boundaries.iter().zip(asked) {
        println!("{}: {asked} answers to {} cases, as {who}", boundary.name(), seeds.len());
    }
    Ok(())
}

/// The seeds that the environment asks for, or the fixed ones.
fn seeds() -> Outcome<Vec<u64>> {
    let number = |name: &str| -> Outcome<Option<u64>> {
        Ok(std::env::var(name).ok().map(|text| text.parse()).transpose()?)
    };
    let cases = number("PINFOLD_VERDICTS_CASES")?.unwrap_or(CASES);
    let count_from = |first: u64| (0..cases).map(move |case| first.wrapping_add(case));
    if let Some(first) = number("PINFOLD_VERDICTS_SEED")? {
        return Ok(count_from(first).collect());
    }
    let lines = FOUND.lines().filter(|line| !line.starts_with('#'));
    let found: Result<Vec<u64>, _> = lines.map(str::parse).collect();
    Ok(found?.into_iter().chain(count_from(FIRST)).collect())
}

/// Those that work here, the embedded one first.
fn boundaries(init: &Path, as_root: bool) -> Outcome<Vec<Box<dyn Boundary>>> {
    let mut all: Vec<Box<dyn Boundary>> = vec![Box::new(Namespace)];
    for engine in Engine::ALL {
        let boundary = Container::new(engine, HostPath::new(init)?);
        if engine.is_installed(Vec::new(), |_, _| false) {
            all.push(Box::new(boundary))
        } else {
            println!("skipped: {}, which is not installed", boundary.name())
        }
    }
    // What has a daemon does not see the mounts that root's trees are made with.
    let launcher = Launcher::new(Wrappers::none());
    for boundary in
        pinfold_session::boundaries(pinfold_session::OwnPrograms::default(), &[], &launcher)?
            .into_iter()
            .filter(|_| !as_root)
    {
        let is_managed = MANAGED.contains(&boundary.name());
        let is_usable = is_managed && boundary.probe().usable();
        match (is_managed, is_usable) {
            (true, true) => all.push(boundary),
            (true, false) => println!("skipped: {}, which does not work here", boundary.name()),
            (false, _) => {}
        }
    }
    Ok(all)
}

/// Binds that trees are made with stay in a mount namespace of this process.
fn own_mounts() -> Outcome<()> {
    use rustix::mount::MountPropagationFlags;
    // SAFETY: integer arguments only; this process has one thread and shares its file system
    // attributes with no other.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    Ok(rustix::mount::mount_change("/", private)?)
}

/// The prober is this program, which is static; its own place may not be for everyone.
fn copy_of_this_program(directory: &Path) -> Outcome<std::path::PathBuf> {
    let copy = directory.join("prober");
    fs::copy(std::env::current_exe()?, &copy)?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
    Ok(copy)
}

/// Returns how many answers were compared.
fn one_case(
    seed: u64,
    base: &Path,
    (boundary, prober): (&dyn Boundary, &Path),
    may_mount: bool,
) -> Outcome<usize> {
    let mut dice = Dice(seed);
    let world = World::make(base, &mut dice, may_mount)?;
    let authority = policy(&world, &mut dice);
    let judge = Judge { authority: &authority, world: &world };
    let cases = judge.cases(&mut dice);
    let abi = *dice.pick(&ABIS);
    let before = world.picture()?;
    let requests: Vec<_> = cases.iter().map(|(request, _)| request.clone()).collect();
    let context = || format!("with Landlock ABI {abi} of\n{}", describe(&authority));
    let answers = match ask(&authority, (boundary, prober), abi, &requests) {
        Ok(answers) => answers,
        // Its engine cannot be given such a path, so nothing is started.
        Err(error) if is_unspeakable(error.as_ref()) && OF_TEXT.contains(&boundary.name()) => {
            return Ok(0);
        }
        Err(error) => return Err(format!("{error}\n{}", context()).into()),
    };
    if answers.len() != cases.len() {
        return Err(format!("the prober gave up after {} answers", answers.len()).into());
    }
    let secrets = judge.secrets();
    for ((request, expect), answer) in cases.iter().zip(&answers) {
        let leak = secrets.iter().any(|secret| contains(&answer.content, secret));
        let what = match (leak, answer.is_put_back()) {
            (true, _) => "leaked what is hidden",
            (false, false) => "let something be changed and not changed back",
            (false, true) => "disagreed",
        };
        if leak || !answer.is_put_back() || !is_met((request, expect), answer, boundary) {
            return Err(format!(
                "the kernel {what}: {request:?}\n  expected {expect:?}\n  got {answer:?}\n{}",
                context()
            )
            .into());
        }
    }
    if world.picture()? != before {
        return Err(format!("the host's tree is not as it was, {}", context()).into());
    }
    Ok(answers.len())
}

fn is_unspeakable(error: &(dyn Error + 'static)) -> bool {
    match error.downcast_ref::<LaunchError>() {
        Some(LaunchError::Step { source, .. }) => source.raw_os_error() == Some(libc::EILSEQ),
        Some(LaunchError::Source { source, .. }) => source.to_string().contains("not UTF-8"),
        _ => false,
    }
}

/// Behind gVisor nothing succeeds that is denied, and that is all that is asked of it here: its kernel
/// numbers files again, knows a mount by each of its places (`EBUSY`), takes a watch on what may not
/// be read (of a mask there is nothing to be seen), and a slash after the name of a file.
fn is_met(
    (request, expect): (&Request, &Expect),
    answer: &Answer,
    boundary: &dyn Boundary,
) -> bool {
    let has_slash = request.path.as_os_str().as_bytes().ends_with(b"/");
    let is_denied = matches!(expect, Expect::Failure | Expect::DoesNotShow(..));
    let is_its_own = !is_denied || request.op == Op::Watch || has_slash;
    expect.is_met(answer) || boundary.name() == RUNSC && is_its_own
}

fn contains(content: &[u8], secret: &[u8]) -> bool {
    content.windows(secret.len().max(1)).any(|window| window == secret)
}

fn describe(authority: &Authority) -> String {
    let grants = authority.grants().map(|grant| {
        format!("  grant {} of {} at {}", grant.access, grant.root.host, grant.root.inside)
    });
    let restrictions = authority
        .restrictions()
        .map(|restriction| format!("  {} {}", restriction.host, restriction.effect));
    grants.chain(restrictions).collect::<Vec<_>>().join("\n")
}

/// Has the prober inside answer.
fn ask(
    authority: &Authority,
    (boundary, prober): (&dyn Boundary, &Path),
    abi: u32,
    requests: &[Request],
) -> Outcome<Vec<Answer>> {
    let (mut input, mut output) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let directory = tempfile::tempdir()?;
    let name = directory.path().file_name().and_then(|name| name.to_str()).unwrap_or("verdicts");
    let session = Session {
        name: name.trim_start_matches('.'),
        directory: directory.path(),
        configuration: None,
        interrupt: None,
    };
    probe::write_requests(requests, &mut input)?;
    input.rewind()?;
    let mut inside = boundary.launch(plan(authority, prober, abi)?, session)?;
    let program = Program {
        argv: vec![PROBER.into(), "probe".into()],
        ignored: 0,
        env: Vec::new(),
        cwd: InsidePath::root(),
    };
    let ends = [
        StdioEnd::Descriptor(input.into()),
        StdioEnd::Descriptor(output.try_clone()?.into()),
        StdioEnd::Descriptor(std::io::stderr().as_fd().try_clone_to_owned()?),
    ];
    inside.command(&program, Stdio::plain(ends))?;
    let masks = mounts::masks(authority, &|_, _| None);
    inside.seal(masks)?;
    let _ = inside.channel.send(&Order::Start(Vec::new()), &[]);
    loop {
        match inside.channel.receive::<Report>()?.map(|received| received.message) {
            Some(Report::Ended(Ended::Code(0))) => break,
            Some(Report::Times(_)) => {}
            Some(other) => return Err(format!("the sandbox ended early: {other:?}").into()),
            None => return Err(inside.last_words().into()),
        }
    }
    let mut text = String::new();
    output.rewind()?;
    output.read_to_string(&mut text)?;
    probe::read_answers(&text).ok_or_else(|| "the prober's answers cannot be read".into())
}

fn plan(authority: &Authority, prober: &Path, abi: u32) -> Outcome<LaunchPlan> {
    let mut tree = mounts::grants(authority)?;
    let place = Place::ReadOnly(HostPath::new(prober)?);
    tree.push(Entry { path: InsidePath::new(PROBER)?, place });
    let (uid, gid) = inside_ids();
    Ok(LaunchPlan {
        tree,
        identity: Identity { uid, gid, home: InsidePath::new("/home")? },
        hostname: "prober".to_owned(),
        doors: Vec::new(),
        limits: ResourceLimits::default(),
        landlock: Landlock::AtMost(abi),
        nested: false,
        leaves_nothing: false,
    })
}
