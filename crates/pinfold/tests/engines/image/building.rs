//! What is built, when, and from what.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use pinfold_testkit::engines::Room;

use super::{Scene, good, refused, said};

/// What docs/guides/images.md says of tags, in another language.
const TAG: &str = r#"
import hashlib, json, os, sys
files, extensions, digest = sys.argv[1:]
left_out = (b"node_modules", b"dist", b".git")
sha = lambda data: hashlib.sha256(data).hexdigest()
found = {}
for top, names, entries in os.walk(os.fsencode(extensions)):
    names[:] = [n for n in names if n not in left_out]
    for entry in set(entries).difference(left_out):
        path = os.path.join(top, entry)
        found[os.path.relpath(path, os.fsencode(extensions))] = open(path, "rb").read()
listed = sha(b"".join(p + b"\0" + found[p] + b"\0" for p in sorted(found) if b"/" in p))
text = sha(open(files + "/Dockerfile", "rb").read()) + ":" + sha(digest.encode())
print("agent-loop-sandbox-pi:v" + sha((text + ":" + listed).encode())[:8])
"#;

fn extensions(scene: &Scene<'_>) {
    for (name, content) in [
        ("one/package.json", "{}"),
        ("one/index.ts", "export {}"),
        ("one-b/x", "sorts before one/"),
        ("one/node_modules/p/index.js", "made again"),
        ("one/dist/index.js", "made again"),
        ("one/.git/config", "history"),
        ("line\nbreak/-rf", "any name"),
        ("one/sub/node_modules/x", "made again"),
        ("one/sub/dist", "made again"),
        ("one/node_modules2/x", "kept"),
        ("NOTES.md", "no extension"),
    ] {
        scene.stage.write(&format!("ext/{name}"), content);
    }
}

/// Names that are no text, contents that are read in parts, links, and directories without files.
fn awkward(scene: &Scene<'_>) {
    let folder = scene.stage.path("ext/one");
    for (name, content) in
        [(&b"\xff"[..], vec![0; 65_536]), (b"\xc3\xa9", vec![b'x'; 200_001]), (b"one.b", vec![0])]
    {
        fs::write(folder.join(OsStr::from_bytes(name)), content).unwrap();
    }
    symlink("../one-b/x", folder.join("link")).unwrap();
    fs::create_dir_all(folder.join("empty/of/files")).unwrap();
    fs::create_dir(scene.stage.path("ext/one.c")).unwrap();
}

#[test]
fn a_tag_is_the_one_that_another_program_computes() {
    for room in Room::all("a_tag_is_the_one_that_another_program_computes") {
        let scene = Scene::new(&room);
        extensions(&scene);
        awkward(&scene);
        let (files, folder) = (scene.path("files"), scene.path("ext"));
        let options = ["--base-image", "base:1", "--extensions", &folder];
        let json = good(&scene.image("tag", &options).arg("--json").output().unwrap());
        let shown: serde_json::Value = serde_json::from_str(&json).unwrap();
        let digest = shown["base-digest"].as_str().unwrap();
        let known =
            room.good(&["image", "inspect", "base:1", "--format", "{{.Id}} {{.RepoDigests}}"]);
        assert!(!digest.is_empty() && known.contains(digest), "{digest}: {known}");
        let mut python = scene.stage.command("python3");
        let expected = python.args(["-c", TAG, &files, &folder, digest]).output().unwrap();
        assert_eq!(shown["tag"].as_str(), Some(good(&expected).as_str()), "{}", room.name);
    }
}

#[test]
fn an_image_is_built_once_from_files_and_extensions() {
    for room in Room::all("an_image_is_built_once_from_files_and_extensions") {
        let scene = Scene::new(&room);
        extensions(&scene);
        let folder = scene.path("ext");
        let options = ["--extensions", folder.as_str()];
        let first = scene.build(&options);
        let tag = good(&first);
        let list = "./Dockerfile\n./packages/line\n./packages/one-b/x\n./packages/one/index.ts\n\
                    ./packages/one/node_modules2/x\n./packages/one/package.json\n./settings.json\nbreak/-rf\none";
        assert!(said(&first).contains(list), "{}", said(&first));
        let again = scene.build(&options);
        assert_eq!(good(&again), tag);
        assert_eq!(said(&again), format!("pinfold: {tag} is there\n"));
        let rebuilt = scene.build(&["--extensions", &folder, "--rebuild"]);
        assert_eq!(good(&rebuilt), tag);
        assert!(said(&rebuilt).contains(list), "{}", said(&rebuilt));
        assert_eq!(good(&scene.tag(&["--base-image", "base:1", "--extensions", &folder])), tag);
        let mut list = scene.stage.pinfold(&["image", "ls", "pi", "--engine", room.name]);
        let listed = good(&room.open(&mut list).output().unwrap());
        assert!(listed.starts_with(&tag), "{listed}");
        // A new extension needs its directory and nothing else.
        scene.stage.write("ext/new/index.ts", "");
        let new = scene.build(&options);
        assert_ne!(good(&new), tag);
        assert!(said(&new).contains("./packages/new/index.ts"), "{}", said(&new));
        assert!(scene.contexts().is_empty());
    }
}

#[test]
fn a_users_directories_are_the_files_and_extensions_without_an_option() {
    const TEST: &str = "a_users_directories_are_the_files_and_extensions_without_an_option";
    let Some(room) = Room::podman(TEST) else { return };
    let scene = Scene::new(&room);
    let config = "home/.config/pinfold";
    scene.stage.write(&format!("{config}/images/pi/Dockerfile"), super::DOCKERFILE);
    scene.stage.write(&format!("{config}/extensions/pi/one/index.ts"), "");
    // A tag names what a build would use.
    let tag = |options: &[&str]| {
        let args = ["image", "tag", "pi", "--engine", room.name, "--base-image", "base:1"];
        let mut tag = scene.stage.pinfold(&args);
        good(&room.open(&mut tag).args(options).output().unwrap())
    };
    let [files, extensions] =
        ["images/pi", "extensions/pi"].map(|name| scene.path(&format!("{config}/{name}")));
    let found = tag(&[]);
    assert_eq!(found, tag(&["--files", &files, "--extensions", &extensions]));
    fs::remove_dir_all(extensions).unwrap();
    let without_extensions = tag(&[]);
    assert_ne!(without_extensions, found);
    fs::remove_dir_all(files).unwrap();
    assert_ne!(tag(&[]), without_extensions);
}

#[test]
fn change_that_the_tag_does_not_cover_is_built_again() {
    for room in Room::all("change_that_the_tag_does_not_cover_is_built_again") {
        let scene = Scene::new(&room);
        let tag = good(&scene.build(&[]));
        scene.stage.write("files/settings.json", "{\"a\": 1}");
        let changed = scene.build(&[]);
        assert_eq!(good(&changed), tag);
        assert!(said(&changed).contains(&format!("building {tag}")), "{}", said(&changed));
        // Somebody else's image of that name is not taken for it either.
        room.good(&["tag", "base:1", &tag]);
        assert!(said(&scene.build(&[])).contains("building "));
    }
}

#[test]
fn a_context_is_gone_when_a_build_fails_or_is_ended() {
    for room in Room::all("a_context_is_gone_when_a_build_fails_or_is_ended") {
        let scene = Scene::new(&room);
        scene.stage.write("files/Dockerfile", "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nRUN exit 3\n");
        let failed = refused(&scene.build(&[]));
        assert!(
            failed.contains(&format!("error: {} cannot build agent-loop-", room.name)),
            "{failed}"
        );
        assert!(scene.contexts().is_empty());
        // Podman lets the command of a killed build go on, so it ends by itself.
        let slow = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\nRUN echo slow''ly && sleep 60\n";
        scene.stage.write("files/Dockerfile", slow);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGKILL] {
            let mut build = scene.image("build", &["--base-image", "base:1"]);
            let mut child = build.stderr(Stdio::piped()).spawn().unwrap();
            let lines = BufReader::new(child.stderr.take().unwrap()).lines();
            let mut lines = lines.map(Result::unwrap);
            assert!(lines.any(|line| line.contains("slowly") && !line.contains("echo")));
            assert_eq!(scene.contexts().len(), 1, "it is being built from");
            let pid = rustix::process::Pid::from_child(&child);
            let named = rustix::process::Signal::from_named_raw(signal).unwrap();
            rustix::process::kill_process(pid, named).unwrap();
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(signal), "{}: {status}", room.name);
            let left = usize::from(signal == libc::SIGKILL);
            assert_eq!(scene.contexts().len(), left, "{} {signal}", room.name);
        }
        scene.stage.write("files/Dockerfile", super::DOCKERFILE);
        good(&scene.build(&[]));
        assert!(scene.contexts().is_empty(), "the next build sweeps what a killed one left");
    }
}

#[test]
fn special_files_are_refused_before_an_image_is_built() {
    let Some(room) = Room::podman("what_can_be_no_part_of_an_image_is_refused") else { return };
    let scene = Scene::new(&room);
    let folder = scene.path("ext");
    let link = scene.stage.path("ext/one/link");
    scene.stage.write("ext/one/x", "");
    scene.stage.write("secret", "TOP SECRET");
    for target in ["../../secret", "/etc/passwd", "nowhere"] {
        symlink(target, &link).unwrap();
        let error = refused(&scene.build(&["--extensions", &folder]));
        assert!(error.contains("does not lead to a file of the same folder"), "{error}");
        fs::remove_file(&link).unwrap();
    }
    let (cwd, kind) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
    rustix::fs::mknodat(cwd, &link, kind, rustix::fs::Mode::RUSR, 0).unwrap();
    let error = refused(&scene.build(&["--extensions", &folder]));
    assert!(error.contains("is a device, socket or FIFO"), "{error}");
    fs::remove_file(&link).unwrap();
    fs::File::create(&link).unwrap().set_len(3 << 30).unwrap();
    let error = refused(&scene.build(&["--extensions", &folder]));
    assert!(error.contains("has more than"), "{error}");
    assert!(scene.contexts().is_empty());
}
