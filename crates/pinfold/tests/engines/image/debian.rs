//! Images on a real system: Debian as mmdebstrap makes it, kept with the build's own files.

use std::fs;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use pinfold_testkit::agent::registry;
use pinfold_testkit::engines::Room;
use pinfold_testkit::{installed, kept_directory, people, skip};

use super::{Scene, good, said};

const RELEASE: &str = "bookworm";
const MIRROR: &str = "http://deb.debian.org/debian";

/// The system with these packages as a tarball, made once; none where that cannot be, which is said.
fn system(test: &str, packages: &str) -> Option<PathBuf> {
    let name = format!("{RELEASE}-{packages}.tar");
    let kept = kept_directory().join(name);
    if kept.exists() {
        return Some(kept);
    }
    if !installed("mmdebstrap") {
        skip(test, "mmdebstrap is not installed");
        return None;
    }
    // Whole under its name, or not there: another test may make it, too.
    let new = kept.with_extension(format!("{}.tar", std::process::id()));
    let mut make = people().remove(0).command("mmdebstrap");
    make.args(["--variant=apt", "--quiet"]).arg(format!("--include={packages}"));
    make.arg(RELEASE).arg(&new).arg(MIRROR);
    let made = make.output().unwrap();
    if !made.status.success() {
        let _ = fs::remove_file(&new);
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        skip(test, &format!("mmdebstrap cannot: {}", said.lines().last().unwrap_or_default()));
        return None;
    }
    fs::rename(&new, &kept).unwrap();
    Some(kept)
}

/// Whether packages are available.
fn has_mirror(test: &str) -> bool {
    let addresses = "deb.debian.org:80".to_socket_addrs().into_iter().flatten();
    let reaches = |address| TcpStream::connect_timeout(&address, Duration::from_secs(5)).is_ok();
    let found = addresses.into_iter().any(reaches);
    if !found {
        skip(test, "deb.debian.org cannot be reached");
    }
    found
}

#[test]
fn a_list_of_packages_is_installed_over_a_real_system_for_its_own_user() {
    const TEST: &str = "a_list_of_packages_is_installed_over_a_real_system";
    if !rustix::process::geteuid().is_root() || !has_mirror(TEST) {
        return skip(TEST, "root and a mirror are needed");
    }
    let Some(system) = system(TEST, "ca-certificates") else { return };
    for room in Room::all(TEST) {
        let scene = Scene::new(&room);
        room.good(&["import", &system.display().to_string(), "debian-own:1"]);
        scene.stage.write(
            "files/Dockerfile",
            "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nRUN useradd --create-home agent\nUSER agent\n",
        );
        scene.stage.write("ws/.agent-loop/dependencies", "# tools\njq  # for JSON\n");
        good(&scene.stage.pinfold(&["trust", "--image", "--yes"]).output().unwrap());
        let options = ["--base-image", "debian-own:1", "--network", "host"];
        let files = scene.path("files");
        let mut build = scene.stage.pinfold(&["image", "build", "pi", "--files", &files]);
        build.args(["--engine", room.name]).args(options);
        let built = room.open(&mut build).output().unwrap();
        let tag = good(&built);
        assert!(said(&built).contains("Setting up jq"), "{}", said(&built));
        let user = ["image", "inspect", "--format", "{{.Config.User}}", &tag];
        assert_eq!(room.good(&user), "agent", "the layer leaves the user as it was");
    }
}

/// What is data in this repository is a working image: pi, an extension of a user's that is built and
/// linked, pi's settings, and a user who owns them.
#[test]
fn pis_own_image_has_pi_its_extensions_and_its_settings() {
    const TEST: &str = "pis_own_image_has_pi_its_extensions_and_its_settings";
    if !rustix::process::geteuid().is_root() || !has_mirror(TEST) || !registry() {
        return skip(TEST, "root, a mirror and the npm registry are needed");
    }
    let Some(room) = Room::podman(TEST) else { return };
    let Some(system) = system(TEST, "ca-certificates,nodejs,npm") else { return };
    let scene = Scene::new(&room);
    room.good(&["import", &system.display().to_string(), "debian-npm:1"]);
    // Behind a gateway only the machine knows whom to trust.
    let bundle = fs::read("/etc/ssl/certs/ca-certificates.crt").unwrap();
    scene.stage.write("base/bundle.crt", bundle);
    let base = "FROM debian-npm:1\nCOPY bundle.crt /etc/ssl/certs/ca-certificates.crt\n\
                ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt\n";
    scene.stage.write("base/Dockerfile", base);
    room.good(&["build", "--network=none", "--tag=npm-own:1", &scene.path("base")]);
    let package =
        r#"{"name": "hello", "version": "1.0.0", "scripts": {"build": "echo it is built >built"}}"#;
    scene.stage.write("ext/hello/package.json", package);
    let folder = scene.path("ext");
    let mut build = scene.stage.pinfold(&["image", "build", "pi", "--engine", "podman"]);
    build.args(["--base-image", "localhost/npm-own:1", "--network", "host"]);
    let built = room.open(&mut build).args(["--extensions", &folder]).output().unwrap();
    let tag = good(&built);
    let look = "id -un; command -v pi; cat ~/.pi/agent/extensions/hello/built; \
                jq -r .defaultModel ~/.pi/agent/settings.json; stat -c %U ~/.pi /opt/pi/packages/hello; \
                for one in fdfind ssh make; do command -v $one; done";
    let shown = room.good(&["run", "--rm", "--network=none", &tag, "sh", "-c", look]);
    assert_eq!(
        shown,
        "agent\n/usr/local/bin/pi\nit is built\nclaude-sonnet-4-6\nagent\nagent\n\
         /usr/bin/fdfind\n/usr/bin/ssh\n/usr/bin/make"
    );
    // The same as a session, on files of its own and behind pinfold's walls.
    let base = room.base(&tag);
    let look = "command -v pi && cat ~/.pi/agent/extensions/hello/built";
    let mut run = scene.stage.pinfold(&["run", "--base", &base, "--", "sh", "-c", look]);
    let shown = good(&room.open(&mut run).output().unwrap());
    assert_eq!(shown, "/usr/local/bin/pi\nit is built");
}
