//! What programs expect of the place that they run in.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Output;

use pinfold_testkit::{Stage, engine, installed, people, skip};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shown(output: &Output) -> (String, String) {
    (text(&output.stdout), text(&output.stderr))
}

/// Removes the socket and binds another one at its place.
const BIND_AGAIN: &str = "rm left.sock && perl -MIO::Socket::UNIX -e '
    IO::Socket::UNIX->new(Local => \"left.sock\", Listen => 1) or die \"bind: $!\"; print \"bound\\n\"'";

#[test]
fn a_socket_that_nobody_listens_at_can_be_bound_again() {
    for person in people() {
        for options in [&[][..], &["--workspace", "overlay"]] {
            let stage = Stage::new(person);
            let path = stage.workspace().join("left.sock");
            drop(UnixListener::bind(&path).unwrap());
            stage.own(&path);
            let (said, errors) = shown(&stage.run_shell(options, BIND_AGAIN));
            assert_eq!(said, "bound\n", "{options:?}: {errors}");
            // The second session finds what the first one left.
            let (said, errors) = shown(&stage.run_shell(options, BIND_AGAIN));
            assert_eq!(said, "bound\n", "{options:?}: {errors}");
        }
    }
}

#[test]
fn a_socket_that_somebody_listens_at_stays_masked() {
    for person in people() {
        let stage = Stage::new(person);
        let path = stage.workspace().join("live.sock");
        let listener = UnixListener::bind(&path).unwrap();
        stage.own(&path);
        let script = "rm live.sock 2>&1; perl -MIO::Socket::UNIX -e '
            print IO::Socket::UNIX->new(Peer => \"live.sock\") ? \"open\\n\" : \"closed\\n\"'";
        let (said, errors) = shown(&stage.run_shell(&[], script));
        assert!(said.contains("rm:") && said.ends_with("closed\n"), "{said}{errors}");
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "nobody has connected");
    }
}

#[test]
fn debians_chromium_finds_its_settings() {
    let test = "debians_chromium_finds_its_settings";
    if !installed("chromium") || !Path::new("/etc/chromium.d").exists() || engine().is_some() {
        return skip(test, "Debian's chromium is not installed, or an engine is tried");
    }
    for person in people() {
        let stage = Stage::new(person);
        let options = ["--headless", "--no-sandbox", "--dump-dom", "data:text/html,<p>shown"];
        let output = stage.run(&[], &[&["chromium"][..], &options].concat());
        let (said, errors) = shown(&output);
        assert!(said.contains("<p>shown"), "{said}{errors}");
    }
}
