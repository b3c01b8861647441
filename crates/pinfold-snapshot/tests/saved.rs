//! Images as engines save them: what was asked for and nothing else, whatever the file says.

#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

use std::fs;
use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use pinfold_snapshot::layer::{Applied, Budget, LayerError, MOST_ENTRIES, apply_saved};
use proptest::prelude::*;
use ring::digest::{SHA256, digest};
use tar::{Builder, EntryType, Header};

const MOST: u64 = 1 << 20;

fn add(archive: &mut Builder<Vec<u8>>, name: &str, bytes: &[u8]) {
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(bytes.len() as u64);
    archive.append_data(&mut header, name, bytes).unwrap();
}

fn link(archive: &mut Builder<Vec<u8>>, name: &str, to: &str) {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Symlink);
    header.set_mode(0o777);
    header.set_size(0);
    archive.append_link(&mut header, name, to).unwrap();
}

/// A layer with one file.
fn layer(name: &str, content: &str) -> Vec<u8> {
    let mut layer = Builder::new(Vec::new());
    add(&mut layer, name, content.as_bytes());
    layer.into_inner().unwrap()
}

fn named(bytes: &[u8]) -> String {
    let digits = digest(&SHA256, bytes);
    digits.as_ref().iter().fold("sha256:".to_owned(), |all, byte| all + &format!("{byte:02x}"))
}

fn manifest(archive: &mut Builder<Vec<u8>>, layers: &[&str]) {
    let text = format!(r#"[{{"Config": "c.json", "RepoTags": null, "Layers": {layers:?}}}]"#);
    add(archive, "manifest.json", text.as_bytes());
}

/// Applies it; what came of it, and the tree.
fn applied(saved: &[u8], layers: &[String]) -> (Result<Applied, LayerError>, tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    let (file, tree) = (place.path().join("saved"), place.path().join("tree"));
    fs::write(&file, saved).unwrap();
    fs::create_dir(&tree).unwrap();
    let budget = Budget::new(MOST, MOST_ENTRIES);
    (apply_saved(&file, layers, &tree, budget), place)
}

fn refused(saved: Builder<Vec<u8>>, layers: &[String]) -> String {
    applied(&saved.into_inner().unwrap(), layers).0.unwrap_err().to_string()
}

fn content(place: &Path, name: &str) -> String {
    fs::read_to_string(place.join("tree").join(name)).unwrap()
}

/// In the manifest's order and not in the file's; packed or plain; a layer that is there twice is a link,
/// as Docker 20.10 writes it.
#[test]
fn layers_lie_over_each_other_as_the_manifest_says() {
    let (lower, upper) = (layer("a", "lower"), layer("a", "upper"));
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&upper).unwrap();
    let mut saved = Builder::new(Vec::new());
    add(&mut saved, "two/layer.tar", &packed.finish().unwrap());
    add(&mut saved, "one/layer.tar", &lower);
    link(&mut saved, "three/layer.tar", "../one/layer.tar");
    manifest(&mut saved, &["one/layer.tar", "two/layer.tar"]);
    let saved = saved.into_inner().unwrap();
    let (done, place) = applied(&saved, &[named(&lower), named(&upper)]);
    assert_eq!(done.unwrap(), Applied { entries: 2, bytes: 10, left_out: 0 });
    assert_eq!(content(place.path(), "a"), "upper");

    let mut again = Builder::new(Vec::new());
    add(&mut again, "one/layer.tar", &lower);
    add(&mut again, "two/layer.tar", &upper);
    link(&mut again, "three/layer.tar", "../one/layer.tar");
    manifest(&mut again, &["one/layer.tar", "two/layer.tar", "three/layer.tar"]);
    let layers = [named(&lower), named(&upper), named(&lower)];
    let (done, place) = applied(&again.into_inner().unwrap(), &layers);
    assert!(done.is_ok());
    assert_eq!(content(place.path(), "a"), "lower");
}

#[test]
fn image_other_than_the_requested_one_is_refused() {
    let one = layer("a", "one");
    let with = |names: &[&str]| {
        let mut saved = Builder::new(Vec::new());
        add(&mut saved, "one/layer.tar", &one);
        manifest(&mut saved, names);
        saved
    };
    let right = [named(&one)];
    assert!(refused(with(&["one/layer.tar"]), &[named(b"")]).contains("of another content"));
    assert!(refused(with(&[]), &right).contains("another number of layers"));
    assert!(refused(with(&["other/layer.tar"]), &right).contains("no such layer"));
    // A path means something in the file alone.
    assert!(refused(with(&["/etc/passwd"]), &right).contains("no such layer"));
    assert!(refused(with(&["../../etc/passwd"]), &right).contains("no such layer"));
    let mut round = with(&["x/layer.tar"]);
    link(&mut round, "x/layer.tar", "../y/layer.tar");
    link(&mut round, "y/layer.tar", "../x/layer.tar");
    assert!(refused(round, &right).contains("no such layer"));
    let mut outside = with(&["x/layer.tar"]);
    link(&mut outside, "x/layer.tar", "/etc/passwd");
    assert!(refused(outside, &right).contains("no such layer"));
    let mut none = Builder::new(Vec::new());
    add(&mut none, "one/layer.tar", &one);
    assert!(refused(none, &right).contains("no manifest"));
    let mut two = Builder::new(Vec::new());
    add(&mut two, "manifest.json", br#"[{"Layers": []}, {"Layers": []}]"#);
    assert!(refused(two, &right).contains("not one image"));
    let mut torn = Builder::new(Vec::new());
    add(&mut torn, "manifest.json", b"[{");
    assert!(refused(torn, &right).contains("damaged"));
}

proptest! {
    /// Bytes that are changed or missing end in an error or in the very image, and never in a panic.
    #[test]
    fn a_file_that_is_damaged_is_an_error_or_the_image(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let one = layer("a", "one");
        let mut saved = Builder::new(Vec::new());
        add(&mut saved, "one/layer.tar", &one);
        manifest(&mut saved, &["one/layer.tar"]);
        let mut bytes = saved.into_inner().unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let (done, place) = applied(&bytes, &[named(&one)]);
        if done.is_ok() {
            prop_assert_eq!(content(place.path(), "a"), "one");
        }
    }
}
