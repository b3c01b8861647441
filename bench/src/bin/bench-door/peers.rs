//! Other proxies of this machine, each started with its least configuration.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::Failed;

/// A proxy that runs; it ends with the value.
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) proxy: SocketAddr,
    pub(super) child: Child,
    _files: tempfile::TempDir,
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It has ended already, or does now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark starts what it compares")]
pub(super) fn program(name: impl AsRef<OsStr>) -> Command {
    Command::new(name)
}

/// Starts those that are installed; of the others it says that they are not compared. mitmproxy's path is
/// what `scripts/mitmproxy` prints, in `MITMDUMP`.
pub(super) fn start() -> Result<Vec<Peer>, Failed> {
    let mut peers = Vec::new();
    let mitmdump = std::env::var_os("MITMDUMP").unwrap_or_else(|| "mitmdump".into());
    for (name, program_of) in [("squid", OsStr::new("squid")), ("mitmproxy", &mitmdump)] {
        let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let files = tempfile::tempdir()?;
        let mut command = program(program_of);
        if name == "squid" {
            let file = files.path().join("squid.conf");
            std::fs::write(&file, squid(proxy, &files.path().display().to_string()))?;
            command.arg("-N").arg("-f").arg(file);
        } else {
            command.args(["--quiet", "--set", "ssl_insecure=true", "--ignore-hosts", ".*"]);
            command.args(["--listen-host", "127.0.0.1", "--listen-port"]);
            command.arg(proxy.port().to_string()).arg("--set");
            command.arg(format!("confdir={}", files.path().display()));
        }
        let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
            println!("{name} is not installed: not compared");
            continue;
        };
        let peer = Peer { name, proxy, child, _files: files };
        if is_up(proxy) {
            peers.push(peer)
        } else {
            println!("{name} does not start: not compared")
        }
    }
    Ok(peers)
}

fn squid(proxy: SocketAddr, directory: &str) -> String {
    format!(
        "http_port {proxy}\nacl all_ports port 1-65535\nhttp_access allow all\ncache deny all\n\
         access_log none\ncache_log {directory}/cache.log\npid_filename none\n\
         coredump_dir {directory}\n"
    )
}

fn is_up(address: SocketAddr) -> bool {
    (0..200).any(|_| {
        thread::sleep(Duration::from_millis(100));
        std::net::TcpStream::connect(address).is_ok()
    })
}
