//! Layers become what they describe, and a hostile one nothing else.

#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use pinfold_snapshot::layer::{Applied, Budget, LayerError, MOST_ENTRIES, apply, apply_all, open};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

/// An archive under construction; names are written as they are.
struct Archive(Builder<Vec<u8>>);

impl Archive {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    fn entry(mut self, kind: EntryType, name: &str, mode: u32, link: &str, content: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        // The library would refuse some of these.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn file(self, name: &str, content: &str) -> Self {
        self.entry(EntryType::Regular, name, 0o644, "", content.as_bytes())
    }

    fn directory(self, name: &str) -> Self {
        self.entry(EntryType::Directory, name, 0o755, "", b"")
    }

    fn symlink(self, name: &str, to: &str) -> Self {
        self.entry(EntryType::Symlink, name, 0o777, to, b"")
    }

    fn link(self, name: &str, to: &str) -> Self {
        self.entry(EntryType::Link, name, 0o644, to, b"")
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

/// A directory with a tree in it, next to something that nothing may touch.
struct World(TempDir);

impl World {
    fn new() -> Self {
        let world = Self(tempfile::tempdir().unwrap());
        fs::create_dir(world.root()).unwrap();
        fs::write(world.0.path().join("victim"), "untouched").unwrap();
        world
    }

    fn root(&self) -> std::path::PathBuf {
        self.0.path().join("tree")
    }

    fn apply(&self, archive: Archive) -> Result<Applied, LayerError> {
        apply(archive.bytes().as_slice(), &self.root(), &mut Budget::new(1 << 30, MOST_ENTRIES))
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.root().join(name)).unwrap()
    }

    fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.root().join(name)).is_ok()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let victim = fs::read_to_string(self.0.path().join("victim")).unwrap();
        assert_eq!(victim, "untouched");
        assert_eq!(fs::read_dir(self.0.path()).unwrap().count(), 2, "nothing outside the tree");
    }
}

#[test]
fn a_layer_becomes_files_directories_and_links() {
    let world = World::new();
    let archive = Archive::new()
        .directory("./")
        .directory("usr/bin/")
        .entry(EntryType::Regular, "usr/bin/tool", 0o6755, "", b"#!")
        .symlink("bin", "usr/bin")
        .symlink("abs", "/etc/passwd")
        .link("usr/bin/same", "usr/bin/tool")
        .file("bin/through", "a link of the tree's own")
        .file("/etc/absolute", "lies in the tree");
    let applied = world.apply(archive).unwrap();
    assert_eq!((applied.entries, applied.left_out), (8, 0));
    let tool = fs::metadata(world.root().join("usr/bin/tool")).unwrap();
    assert_eq!(tool.permissions().mode() & 0o7777, 0o755, "no set-user-ID bit");
    assert_eq!(tool.nlink(), 2);
    assert_eq!(world.text("usr/bin/through"), "a link of the tree's own");
    assert_eq!(world.text("etc/absolute"), "lies in the tree");
    assert_eq!(fs::read_link(world.root().join("abs")).unwrap(), Path::new("/etc/passwd"));
}

#[test]
fn whiteouts_take_away_what_lower_layers_have_and_nothing_else() {
    let world = World::new();
    let lower = Archive::new()
        .file("a/one", "1")
        .file("a/two", "2")
        .file("b/deep/three", "3")
        .file("c/four", "4")
        .file("d", "5");
    world.apply(lower).unwrap();
    let upper = Archive::new()
        .file("b/deep/new", "n")
        .file("a/.wh.one", "")
        .file("b/.wh..wh..opq", "")
        .file("b/after", "n")
        .file(".wh.c", "")
        .file("c/again", "n")
        .file(".wh.not-there", "")
        .directory("d");
    world.apply(upper).unwrap();
    assert!(!world.has("a/one") && world.has("a/two"));
    assert!(!world.has("b/deep/three") && world.has("b/deep/new") && world.has("b/after"));
    assert!(!world.has("c/four") && world.has("c/again"));
    assert!(fs::metadata(world.root().join("d")).unwrap().is_dir(), "a file makes way");
    assert!(!world.has("a/.wh.one"));
}

#[test]
fn no_entry_leads_out_of_the_tree() {
    for name in ["../victim", "a/../../victim", "/../victim", "./../victim"] {
        let world = World::new();
        let error = world.apply(Archive::new().file(name, "owned")).unwrap_err();
        assert!(error.to_string().contains("leads out of the tree"), "{error}");
    }
    for whiteout in ["../.wh.victim", "a/../../.wh..wh..opq"] {
        let world = World::new();
        assert!(world.apply(Archive::new().file(whiteout, "")).is_err());
    }
}

#[test]
fn links_that_a_layer_plants_lead_nowhere_but_into_the_tree() {
    let world = World::new();
    let outside = world.0.path().display().to_string();
    let archive = Archive::new()
        .symlink("out", "..")
        .symlink("abs", &outside)
        .symlink("self", "victim")
        .file("out/victim", "owned?")
        .file("out/x/y", "deep")
        .file("self", "in place of the link");
    world.apply(archive).unwrap();
    assert_eq!(world.text("victim"), "owned?", "the tree's own, since .. ends at its root");
    assert_eq!(world.text("x/y"), "deep");
    assert_eq!(world.text("self"), "in place of the link");
    // An absolute link that names the host's directory is one of the tree's, which is not there.
    let through = Archive::new().file("abs/victim", "owned?");
    world.apply(through).unwrap();
    assert_eq!(world.text("abs/victim"), "owned?");
    let hard = world.apply(Archive::new().link("leak", "../victim")).unwrap_err();
    assert!(hard.to_string().contains("leads out"), "{hard}");
    let hard = world.apply(Archive::new().link("leak", &format!("{outside}/victim"))).unwrap_err();
    assert!(hard.to_string().contains("not there"), "{hard}");
    let hard = world.apply(Archive::new().directory("dir").link("leak", "dir")).unwrap_err();
    assert!(hard.to_string().contains("second name of a directory"), "{hard}");
}

#[test]
fn whiteouts_through_links_stay_in_the_tree() {
    let world = World::new();
    symlink(world.0.path(), world.root().join("out")).unwrap();
    world.apply(Archive::new().file("out/.wh.victim", "").file("out/.wh..wh..opq", "")).unwrap();
}

#[test]
fn devices_are_left_out_and_counted() {
    let world = World::new();
    let archive = Archive::new()
        .entry(EntryType::Char, "dev/null", 0o666, "", b"")
        .entry(EntryType::Block, "dev/sda", 0o666, "", b"")
        .entry(EntryType::Fifo, "run/fifo", 0o666, "", b"");
    assert_eq!(world.apply(archive).unwrap().left_out, 3);
    assert!(!world.has("dev/null") && !world.has("run/fifo"));
}

#[test]
fn oversized_layer_is_refused_while_it_is_read() {
    let world = World::new();
    let many = (0..20).fold(Archive::new(), |archive, n| archive.file(&format!("f{n}"), "x"));
    let few = &mut Budget::new(1 << 20, 10);
    let error = apply(many.bytes().as_slice(), &world.root(), few).unwrap_err();
    assert!(matches!(error, LayerError::TooMany), "{error}");
    let large = Archive::new().file("large", &"x".repeat(4096)).bytes();
    let error = apply(large.as_slice(), &world.root(), &mut Budget::new(100, 10)).unwrap_err();
    assert!(matches!(error, LayerError::TooMuch { most: 100 }), "{error}");
}

#[test]
fn a_bomb_is_refused_before_it_has_gone_off() {
    let world = World::new();
    let mut header = Header::new_gnu();
    header.set_path("bomb").unwrap();
    header.set_mode(0o644);
    header.set_size(1 << 30);
    header.set_cksum();
    let packed = world.root().join("packed.tgz");
    let mut encoder = GzEncoder::new(fs::File::create(&packed).unwrap(), Compression::fast());
    encoder.write_all(header.as_bytes()).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..128 {
        encoder.write_all(&zeros).unwrap();
    }
    drop(encoder.finish().unwrap());
    let reader = open(fs::File::open(&packed).unwrap()).unwrap();
    let error = apply(reader, &world.root(), &mut Budget::new(1 << 30, MOST_ENTRIES)).unwrap_err();
    assert!(matches!(error, LayerError::Bomb { .. }), "{error}");
    assert_eq!(fs::metadata(world.root().join("bomb")).unwrap().blocks(), 0);
}

#[test]
fn a_damaged_archive_says_so() {
    let world = World::new();
    let mut bytes = Archive::new().file("a", "content").bytes();
    bytes.truncate(600);
    for bytes in [bytes.as_slice(), b"no archive at all".as_slice()] {
        let error =
            apply(bytes, &world.root(), &mut Budget::new(1 << 30, MOST_ENTRIES)).unwrap_err();
        assert!(matches!(error, LayerError::Damaged(_)), "{error}");
    }
}

#[test]
fn archives_of_a_directory_are_applied_in_the_order_of_their_names() {
    let world = World::new();
    let archives = tempfile::tempdir().unwrap();
    let first = Archive::new().file("a", "1").file("b", "1").bytes();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&Archive::new().file("b", "2").file(".wh.a", "").bytes()).unwrap();
    fs::write(archives.path().join("0000.tar"), first).unwrap();
    fs::write(archives.path().join("0001.tgz"), gzip.finish().unwrap()).unwrap();
    apply_all(archives.path(), &world.root(), Budget::new(1 << 30, MOST_ENTRIES)).unwrap();
    assert!(!world.has("a"));
    assert_eq!(world.text("b"), "2");
}

#[test]
fn compression_is_recognised_by_content() {
    let world = World::new();
    let directory = tempfile::tempdir().unwrap();
    let packed = directory.path().join("named.tar");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&Archive::new().file("a", "A").bytes()).unwrap();
    fs::write(&packed, gzip.finish().unwrap()).unwrap();
    let reader = open(fs::File::open(&packed).unwrap()).unwrap();
    apply(reader, &world.root(), &mut Budget::new(1 << 30, MOST_ENTRIES)).unwrap();
    assert_eq!(world.text("a"), "A");
    for (start, how) in [(&b"\xfd7zXZ\0\0\x04"[..], "xz"), (&b"BZh91AY"[..], "bzip2")] {
        fs::write(&packed, start).unwrap();
        let error = open(fs::File::open(&packed).unwrap()).err().unwrap();
        let expected = format!("the archive is packed by {how}, which is not read here");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}

proptest::proptest! {
    #[test]
    fn no_names_and_links_reach_beyond_the_tree(
        parts in proptest::collection::vec(("[a-c./]{1,12}", "[a-c./]{0,12}", 0_u8..5), 1..12)
    ) {
        let world = World::new();
        let archive = parts.iter().fold(Archive::new(), |archive, (name, link, kind)| match kind {
            0 => archive.file(name, "x"),
            1 => archive.directory(name),
            2 => archive.symlink(name, link),
            3 => archive.link(name, link),
            _ => archive.file(&format!("{name}/.wh.{link}").replace("//", "/"), ""),
        });
        // Whether it is refused or applied: dropping the world looks at what lies around.
        let _ = world.apply(archive);
    }
}

/// `scripts/fuzz` found it: the library quotes a number that cannot be read.
#[test]
fn errors_that_quote_an_archive_control_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let mut header = tar::Header::new_gnu();
    header.as_gnu_mut().unwrap().size = *b"000\x1b[2J0000\0";
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.resize(1536, 0);
    let error = apply(bytes.as_slice(), dir.path(), &mut Budget::new(1, 1)).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("\\u{1b}[2J") && !said.contains(char::is_control), "{said}");
}
