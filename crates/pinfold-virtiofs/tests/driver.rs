//! The file server of a machine against a kernel that is hostile: a program that speaks FUSE to it and says what no honest kernel
//! would. No machine is booted.

#[path = "../../pinfold-vm/tests/support/single.rs"]
mod single;

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use pinfold_boundary::namespace::{inside_ids, serve};
use pinfold_boundary::{
    Entry, Identity, Landlock, LaunchPlan, Mask, MaskKind, Place, ResourceLimits,
};
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_virtiofs::FileServer;
use pinfold_wire::Report;

use single::Failed;

const DRIVER: &str = include_str!("driver.py");
const GRANT: &str = "/opt/grant";
const FEWEST: u32 = 150;
const FEWEST_MALFORMED: u32 = 25;

fn main() -> Result<(), Failed> {
    single::run(
        "hostile_kernel_gets_what_the_tree_grants",
        hostile_kernel_gets_what_the_tree_grants,
    )
}

fn hostile_kernel_gets_what_the_tree_grants() -> Result<(), Failed> {
    if !Path::new("/usr/bin/python3").exists() {
        println!("SKIPPED: it needs python3");
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let base = directory.path().canonicalize()?;
    let (workspace, grant) = (base.join("workspace"), base.join("grant"));
    fill(&base, &workspace, &grant)?;
    let said = speak(&base, "all")?;
    let tried = said.lines().find_map(|line| line.strip_prefix("tried ")?.parse::<u32>().ok());
    if !said.contains("still served") || tried.is_none_or(|tried| tried < FEWEST) {
        return Err(said.into());
    }
    println!("{tried:?} attempts");
    is_unharmed(&base, &workspace, &grant)?;
    let mut turn = 0;
    while !speak(&base, &turn.to_string())?.contains("no more") {
        is_unharmed(&base, &workspace, &grant)?;
        turn += 1;
    }
    println!("{turn} that nobody answers");
    if turn < FEWEST_MALFORMED { Err("too few".into()) } else { Ok(()) }
}

/// Has a tree served to the program, and returns what it says. What it got without a right is an error.
#[expect(
    clippy::disallowed_methods,
    reason = "a test starts the program that stands for a machine"
)]
fn speak(base: &Path, turn: &str) -> Result<String, Failed> {
    let (workspace, grant) = (base.join("workspace"), base.join("grant"));
    let socket = base.join(format!("socket-{turn}"));
    let server = Box::new(FileServer::new(UnixListener::bind(&socket)?.into()));
    let mut files = serve(plan(&workspace, &grant)?, server, None, None)?;
    files.seal(masks(&workspace))?;
    let born = files.channel.receive::<Report>()?.map(|received| received.message);
    assert_eq!(born, Some(Report::Born));
    let output = Command::new("/usr/bin/python3")
        .args(["-I", "-c", DRIVER])
        .args([&socket, &workspace])
        .arg(GRANT)
        .arg(base.join("outside"))
        .arg(turn)
        .output()?;
    drop(files);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let is_bad = said.contains("BREACH") || said.contains("Traceback") || !said.contains("granted");
    if is_bad { Err(said.into()) } else { Ok(said) }
}

/// What the driver may not change, with its content.
fn kept(base: &Path, workspace: &Path, grant: &Path) -> [(PathBuf, &'static str); 6] {
    [
        (base.join("outside"), "outside"),
        (workspace.join("secret/key"), "hidden"),
        (workspace.join("token"), "hidden"),
        (workspace.join("fixed/file"), "fixed"),
        (workspace.join(".git/config"), "git"),
        (grant.join("file"), "granted\n"),
    ]
}

fn fill(base: &Path, workspace: &Path, grant: &Path) -> Result<(), Failed> {
    for directory in ["", "secret", "fixed", ".git"] {
        fs::create_dir(workspace.join(directory))?;
    }
    fs::create_dir(grant)?;
    for (path, content) in kept(base, workspace, grant) {
        fs::write(path, content)?;
    }
    fs::write(workspace.join("file"), "of the host\n")?;
    fs::write(workspace.join("own"), "own")?;
    for path in [base, workspace, grant] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn plan(workspace: &Path, grant: &Path) -> Result<LaunchPlan, Failed> {
    let entry = |path: &Path, place| Ok::<_, Failed>(Entry { path: InsidePath::new(path)?, place });
    let tree = vec![
        entry("/usr".as_ref(), Place::ReadOnly(HostPath::new("/usr")?))?,
        entry(GRANT.as_ref(), Place::ReadOnly(HostPath::new(grant)?))?,
        entry(workspace, Place::Writable(HostPath::new(workspace)?))?,
    ];
    let (uid, gid) = inside_ids();
    Ok(LaunchPlan {
        tree,
        identity: Identity { uid, gid, home: InsidePath::root() },
        hostname: "driver".to_owned(),
        doors: Vec::new(),
        limits: ResourceLimits::default(),
        landlock: Landlock::BestEffort,
        nested: false,
        leaves_nothing: false,
    })
}

fn masks(workspace: &Path) -> Vec<Mask> {
    let mask = |(name, kind)| Mask {
        path: workspace.join(name).as_os_str().as_encoded_bytes().to_vec(),
        kind,
    };
    let kinds = [MaskKind::Hide, MaskKind::Hide, MaskKind::ReadOnly, MaskKind::Pin];
    ["secret", "token", "fixed", ".git"].into_iter().zip(kinds).map(mask).collect()
}

/// What the host has is as it was, and nothing new is a device or runs with anybody's rights.
fn is_unharmed(base: &Path, workspace: &Path, grant: &Path) -> Result<(), Failed> {
    for (path, content) in kept(base, workspace, grant) {
        assert_eq!(fs::read_to_string(&path)?, content, "{}", path.display());
    }
    for found in fs::read_dir(workspace)? {
        let found = found?;
        let about = found.metadata()?;
        let kind = about.file_type();
        let is_device = kind.is_char_device() || kind.is_block_device();
        assert!(!is_device && about.mode() & 0o4000 == 0, "{}: {about:?}", found.path().display());
    }
    Ok(())
}
