//! Images that were made to get out.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::time::{Duration, Instant};

use pinfold_testkit::archive::{Archive, gzip};
use pinfold_testkit::registry::{GZIP, Registry};
use pinfold_testkit::snapshot::{possible, repository};
use pinfold_testkit::{Stage, people};
use tar::EntryType;

use super::{build, cache, kept, refused, said, session};

#[test]
fn an_image_that_reaches_out_of_its_tree_gets_nowhere() {
    const TEST: &str = "an_image_that_reaches_out_of_its_tree_gets_nowhere";
    if !possible(TEST) {
        return;
    }
    for user in people() {
        let Some(registry) = Registry::start(TEST) else { return };
        let stage = Stage::new(user);
        let victim = stage.write("victim/file", "untouched");
        let outside = stage.path("victim").display().to_string();
        let first = Archive::system()
            .symlink("usr/out", &outside)
            .symlink("usr/up", "../../../../../../../../../../..")
            .file(&format!("{outside}/absolute"), "in the tree")
            .file("usr/out/through", "in the tree")
            .entry(EntryType::Regular, "bin/ids", 0o6755, "", b"x")
            .entry(EntryType::Block, "usr/disk", 0o666, "", b"")
            .entry(EntryType::Char, "usr/null", 0o666, "", b"")
            .entry(EntryType::Fifo, "usr/fifo", 0o666, "", b"");
        // The next layer writes through what this one has planted.
        let second = Archive::new()
            .file("usr/out/file", "overwritten")
            .file("usr/up/etc/planted", "x")
            .file("usr/out/.wh.file", "");
        registry.push("sys", "1", &[(GZIP, &gzip(&first.bytes())), (GZIP, &gzip(&second.bytes()))]);
        repository(&stage, &format!(r#""base": "{}/sys:1""#, registry.address));
        said(&build(&stage));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        assert_eq!(fs::read_dir(stage.path("victim")).unwrap().count(), 1);
        let tree = cache(&stage, "bases").join(&kept(&stage, "bases")[0]).join("tree");
        let mode = fs::metadata(tree.join("bin/ids")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
        for name in ["disk", "null", "fifo"] {
            assert!(!tree.join("usr").join(name).exists(), "{name}");
        }
        let inside = tree.join(outside.trim_start_matches('/'));
        assert_eq!(fs::read_to_string(inside.join("absolute")).unwrap(), "in the tree");
        assert_eq!(fs::read_to_string(tree.join("etc/planted")).unwrap(), "x");
        let mut special = 0;
        visit(&tree, &mut |kind| special += u32::from(kind.is_block_device() || kind.is_fifo()));
        assert_eq!(special, 0);
        assert_eq!(session(&stage, "cat /usr/up/etc/planted"), "x");
    }
}

fn visit(directory: &std::path::Path, look: &mut impl FnMut(fs::FileType)) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        look(kind);
        if kind.is_dir() {
            visit(&entry.path(), look);
        }
    }
}

#[test]
fn an_archive_that_climbs_or_links_to_what_is_not_there_is_refused_whole() {
    if !possible("an_archive_that_climbs_is_refused_whole") {
        return;
    }
    for user in people() {
        let stage = Stage::new(user);
        let cases = [
            (Archive::system().file("../climbs", "x"), "leads out of the tree"),
            (Archive::system().file("usr/../../climbs", "x"), "leads out of the tree"),
            (Archive::system().hard_link("usr/hard", "../../climbs"), "leads out of the tree"),
            (Archive::system().hard_link("usr/hard", "/etc/shadow"), "not there"),
        ];
        for (index, (archive, message)) in cases.into_iter().enumerate() {
            let name = format!("hostile-{index}.tar");
            stage.write(&name, archive.bytes());
            repository(&stage, &format!(r#""base": "../{name}""#));
            let error = refused(&build(&stage));
            assert!(error.contains(message), "{index}: {error}");
            assert_eq!(kept(&stage, "bases"), Vec::<String>::new(), "{index}");
        }
    }
}

#[test]
fn bombs_and_endless_archives_end() {
    /// Of a debug build on a busy machine.
    const LONGEST: Duration = Duration::from_secs(120);
    if !possible("bombs_and_endless_archives_end") {
        return;
    }
    // One user: it is the unpacker that is tried, which is the same for all.
    let stage = Stage::new(people().pop().unwrap());
    // Zeros, a name that does not end, and more entries than a system may have.
    let zeros = vec![0; 80 << 20];
    let bomb = Archive::new().entry(EntryType::Regular, "usr/zeros", 0o644, "", &zeros);
    let name = Archive::new().entry(EntryType::GNULongName, "././@LongLink", 0o644, "", &zeros);
    let one = Archive::new().entry(EntryType::Directory, "d", 0o755, "", b"").bytes();
    let many = one[..512].repeat(1_000_100);
    for (file, bytes, message) in [
        ("bomb.tar.gz", gzip(&bomb.bytes()), "refused as a bomb"),
        ("name.tar.gz", gzip(&name.bytes()), "refused as a bomb"),
        ("many.tar", many, "1000000 entries"),
    ] {
        stage.write(file, bytes);
        repository(&stage, &format!(r#""base": "../{file}""#));
        let start = Instant::now();
        let error = refused(&build(&stage));
        assert!(error.contains(message), "{file}: {error}");
        assert!(start.elapsed() < LONGEST, "{file} took {:?}", start.elapsed());
        assert_eq!(kept(&stage, "bases"), Vec::<String>::new(), "{file}");
    }
}

/// What a session tries on the layer over this machine's own system. Each fails.
const REFUSED: [&str; 14] = [
    "echo x >>/usr/bin/env",
    "chmod 6755 /usr/local/own",
    "chown 0:0 /usr/local/own",
    "mknod /usr/local/device c 1 3",
    "mknod /usr/local/whiteout c 0 0",
    "mv /usr /usr2",
    "mv /etc /etc2",
    "rmdir /srv",
    "mkdir /data",
    "ln -sfn /tmp /lib",
    "mv /run/pinfold /run/other",
    "rm -r /run/pinfold/trust",
    "echo x >>/run/pinfold/trust/bundle.pem",
    "umount /usr",
];

#[test]
fn layer_over_the_hosts_system_leaves_it_and_what_pinfold_put_over_it() {
    let watched = ["/usr/bin/env", "/etc/passwd", "/etc/hosts", "/etc/resolv.conf"];
    let contents = || watched.map(|path| fs::read(path).ok());
    let before = contents();
    for user in people() {
        let stage = Stage::new(user);
        repository(&stage, r#""setupCommands": ["true"]"#);
        let tries = REFUSED.map(|one| format!("( {one} ) 2>/dev/null && echo {one:?};"));
        let refused = format!("cp /bin/true /usr/local/own; {} echo end", tries.concat());
        assert_eq!(session(&stage, &refused), "end\n");
        // These succeed, for this session alone.
        let changed = "rm /usr/bin/env /etc/hosts /etc/resolv.conf; echo x >>/etc/passwd; \
                       echo mark >/etc/hosts; cat /etc/hosts; ls /usr/bin/env 2>/dev/null";
        assert_eq!(said(&stage.run_shell(&[], &format!("{changed}; true"))), "mark\n");
        assert_eq!(
            session(&stage, "ls /usr/bin/env; grep -c mark /etc/hosts || true"),
            "/usr/bin/env\n0\n"
        );
        compare_verdicts(&stage);
        assert!(contents() == before, "a file of the host has changed");
    }
}

/// Compares `pinfold check` with what the kernel does on the layer.
fn compare_verdicts(stage: &Stage) {
    let paths = [
        "/usr/new",
        "/usr/bin/new",
        "/bin/new",
        "/usr/local/bin/new",
        "/var/lib/new",
        "/etc/new",
        "/usr/bin/env",
        "/bin/env",
        "/usr/share/no/new",
        "/data",
        "/run/pinfold/new",
    ];
    let tries = paths.map(|path| format!("( echo >>{path} ) 2>/dev/null && echo {path};"));
    let written = session(stage, &format!("{} true", tries.concat()));
    let is_allowed =
        |path: &&str| stage.pinfold(&["check", "write", path]).output().unwrap().status.success();
    let allowed: Vec<&str> = paths.into_iter().filter(is_allowed).collect();
    assert_eq!(allowed, written.lines().collect::<Vec<_>>());
    assert!(allowed.contains(&"/usr/bin/new") && !allowed.contains(&"/usr/bin/env"));
}
