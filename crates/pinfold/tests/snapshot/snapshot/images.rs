//! Images: what a name means, and that nothing else is taken for it.

use std::fs;
use std::process::Output;

use pinfold_testkit::archive::{Archive, gzip};
use pinfold_testkit::registry::{GZIP, Registry, ZSTD, digest_of};
use pinfold_testkit::snapshot::{possible, repository};
use pinfold_testkit::{Stage, installed, people, skip};

use super::{build, kept, refused, said, session};

/// A system with a mark, packed.
fn system(mark: &str) -> Vec<u8> {
    gzip(&Archive::system().file("usr/mark", mark).bytes())
}

fn base(stage: &Stage, base: &str) -> String {
    repository(stage, &format!(r#""base": "{base}""#));
    session(stage, "cat /usr/mark")
}

fn refresh(stage: &Stage) -> Output {
    stage.pinfold(&["snapshot", "build", "--refresh"]).output().unwrap()
}

#[test]
fn tag_keeps_its_meaning_until_it_is_looked_up_again() {
    const TEST: &str = "tag_keeps_its_meaning_until_it_is_looked_up_again";
    if !possible(TEST) {
        return;
    }
    for user in people() {
        let Some(registry) = Registry::start(TEST) else { return };
        let stage = Stage::new(user);
        registry.push("sys", "latest", &[(GZIP, &system("one"))]);
        let name = format!("{}/sys", registry.address);
        assert_eq!(base(&stage, &name), "one");
        registry.push("sys", "latest", &[(GZIP, &system("two"))]);
        assert_eq!(session(&stage, "cat /usr/mark"), "one");
        // Removed, and made again as the same.
        said(&stage.pinfold(&["snapshot", "prune"]).output().unwrap());
        assert_eq!(kept(&stage, "bases"), Vec::<String>::new());
        assert_eq!(session(&stage, "cat /usr/mark"), "one");
        said(&refresh(&stage));
        assert_eq!(session(&stage, "cat /usr/mark"), "two");
        drop(registry);
        assert_eq!(session(&stage, "cat /usr/mark"), "two", "nobody is asked");
        refused(&refresh(&stage));
    }
}

#[test]
fn a_digest_is_of_an_image_or_an_index_and_of_nothing_else() {
    const TEST: &str = "a_digest_is_of_an_image_or_an_index_and_of_nothing_else";
    if !possible(TEST) {
        return;
    }
    for user in people() {
        let Some(registry) = Registry::start(TEST) else { return };
        let stage = Stage::new(user);
        let ours = registry.push("sys", "a", &[(GZIP, &system("ours"))]);
        let other = registry.push("sys", "b", &[(GZIP, &system("other"))]);
        let (own, foreign) = match std::env::consts::ARCH {
            "aarch64" => ("arm64", "amd64"),
            _ => ("amd64", "arm64"),
        };
        let manifests = [(foreign, other.as_str()), (own, ours.as_str())];
        let index = registry.push_index("sys", "all", &manifests);
        let address = registry.address.clone();
        assert_eq!(base(&stage, &format!("{address}/sys:all")), "ours");
        assert_eq!(base(&stage, &format!("{address}/sys@{index}")), "ours");
        assert_eq!(base(&stage, &format!("{address}/sys@{other}")), "other");
        assert_eq!(kept(&stage, "bases").len(), 2, "by content, not by name");
        let none = registry.push_index("sys", "none", &[(foreign, other.as_str())]);
        for (what, message) in [
            (format!("sys@{}", digest_of(b"no")), "no image"),
            (format!("sys@{none}"), "it has nothing for linux/"),
            ("sys:missing".to_owned(), "no image"),
            ("none:1".to_owned(), "no image"),
        ] {
            repository(&stage, &format!(r#""base": "{address}/{what}""#));
            let error = refused(&build(&stage));
            assert!(error.contains(message), "{what}: {error}");
        }
        // Pinned ones need no registry once they are there, whatever the digest is of.
        drop(registry);
        assert_eq!(base(&stage, &format!("{address}/sys@{index}")), "ours");
        assert_eq!(base(&stage, &format!("{address}/sys@{ours}")), "ours");
    }
}

#[test]
fn other_content_than_was_asked_for_is_not_used() {
    const TEST: &str = "other_content_than_was_asked_for_is_not_used";
    if !possible(TEST) {
        return;
    }
    for user in people() {
        let Some(registry) = Registry::start(TEST) else { return };
        let stage = Stage::new(user);
        let layer = system("ours");
        let manifest = registry.push("sys", "1", &[(GZIP, &layer)]);
        let file = registry.stored(&digest_of(&layer));
        let mut wrong = layer.clone();
        let middle = wrong.len() / 2;
        wrong[middle] ^= 1;
        fs::write(&file, &wrong).unwrap();
        repository(&stage, &format!(r#""base": "{}/sys:1""#, registry.address));
        let error = refused(&build(&stage));
        assert!(error.contains("sha256"), "{error}");
        assert_eq!(kept(&stage, "bases"), Vec::<String>::new());
        fs::write(&file, &layer).unwrap();
        // Another manifest in the place of the one that is pinned.
        let other = registry.push("sys", "2", &[(GZIP, &system("other"))]);
        let right = fs::read(registry.stored(&manifest)).unwrap();
        fs::copy(registry.stored(&other), registry.stored(&manifest)).unwrap();
        repository(&stage, &format!(r#""base": "{}/sys@{manifest}""#, registry.address));
        refused(&build(&stage));
        assert_eq!(kept(&stage, "bases"), Vec::<String>::new());
        fs::write(registry.stored(&manifest), right).unwrap();
        said(&build(&stage));
        assert_eq!(kept(&stage, "bases").len(), 1);
    }
}

#[test]
fn layers_of_every_packing_take_away_what_they_say() {
    const TEST: &str = "layers_of_every_packing_take_away_what_they_say";
    if !possible(TEST) || !installed("zstd") {
        return skip(TEST, "it takes zstd");
    }
    for user in people() {
        let Some(registry) = Registry::start(TEST) else { return };
        let stage = Stage::new(user);
        let lowest = Archive::system()
            .file("usr/gone", "lower")
            .file("usr/kept", "lower")
            .directory("usr/opaque")
            .file("usr/opaque/old", "lower")
            .file("usr/dir-then-file/x", "lower");
        let next = Archive::new()
            .file("usr/.wh.gone", "")
            .directory("usr/opaque")
            .file("usr/opaque/.wh..wh..opq", "")
            .file("usr/opaque/new", "middle")
            .file("usr/dir-then-file", "middle");
        let last = Archive::new().file("usr/kept", "upper");
        let packed = {
            let plain = stage.write("layer.tar", next.bytes());
            said(&stage.command("zstd").arg("-q").arg(&plain).output().unwrap());
            fs::read(stage.path("layer.tar.zst")).unwrap()
        };
        let plain = "application/vnd.oci.image.layer.v1.tar";
        let layers: [(&str, &[u8]); 3] =
            [(GZIP, &gzip(&lowest.bytes())), (ZSTD, &packed), (plain, &last.bytes())];
        registry.push("sys", "1", &layers);
        repository(&stage, &format!(r#""base": "{}/sys:1""#, registry.address));
        let seen = session(&stage, "ls /usr /usr/opaque; cat /usr/kept /usr/dir-then-file");
        assert_eq!(
            seen,
            "/usr:\nbin\ndir-then-file\nkept\nopaque\n\n/usr/opaque:\nnew\nuppermiddle"
        );
    }
}
