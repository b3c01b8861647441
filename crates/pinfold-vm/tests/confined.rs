//! What encloses QEMU if a guest runs its own code in it: a hostile program in its place tries to get out.

#[path = "support/single.rs"]
mod single;

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;

use pinfold_vm::{Architecture, Machine as _, Qemu, QemuMachine, Spec};

use single::Failed;

const ATTACKER: &str = include_str!("attacker.py");
const SECRET: &str = "a secret of the user's";

fn main() -> Result<(), Failed> {
    single::run(
        "code_in_qemu_reaches_nothing_of_the_host",
        code_in_qemu_reaches_nothing_of_the_host,
    )
}

fn code_in_qemu_reaches_nothing_of_the_host() -> Result<(), Failed> {
    if !cfg!(target_arch = "x86_64") || !Path::new("/usr/bin/python3").exists() {
        println!("SKIPPED: it needs python3, and calls are numbered as on x86-64");
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let root = directory.path().join("root");
    fs::create_dir_all(root.join("usr/bin"))?;
    let program = root.join("usr/bin/qemu-system-x86_64");
    fs::write(&program, ATTACKER)?;
    for path in [directory.path(), &root, &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    let secret = directory.path().join("secret");
    fs::write(&secret, SECRET)?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644))?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let name = format!("pinfold-confined-{}", std::process::id());
    let _named = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    let (kernel, initramfs) = (directory.path().join("kernel"), directory.path().join("facts"));
    fs::write(&kernel, "")?;
    let port = listener.local_addr()?.port();
    fs::write(&initramfs, format!("{} {port} {name} {}", secret.display(), std::process::id()))?;

    let qemu = Qemu::find(&root, Architecture::HOST)?;
    let spec =
        Spec { kernel, initramfs, memory: 512, cpus: 1, share: None, changes: 0, has_tree: true };
    let mut machine = QemuMachine::boot(&qemu, &spec)?;
    let mut said = String::new();
    UnixStream::from(machine.channel()?).read_to_string(&mut said)?;
    let errors = machine.end();
    let tried = said.lines().find_map(|line| line.strip_prefix("tried ")?.parse::<u32>().ok());
    if said.contains("BREACH") || tried.is_none_or(|tried| tried < 80) {
        return Err(format!("{said}{errors}").into());
    }
    println!("{tried:?} attempts");
    Ok(())
}
