use std::path::{Path, PathBuf};

use pinfold_host::launcher::Launcher;
use pinfold_host::wrappers::Wrappers;
use proptest::prelude::*;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256};

use super::Index;

/// Runs a script over a new repository; `None` where there is no git, which is said.
fn repository(script: &str) -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("cd '{}' && {script}", dir.path().display());
    let argv = ["/bin/sh", "-ec", &script].map(str::to_owned);
    let output = Launcher::new(Wrappers::none()).run_to_end(
        &argv,
        &[("GIT_CONFIG_GLOBAL", "/dev/null")],
        None,
    );
    match output {
        Ok(output) if output.code == Some(0) => Some(dir),
        other => {
            eprintln!("skipped: there is no git for this: {:?}", other.map(|output| output.code));
            None
        }
    }
}

const FILES: &str = "mkdir -p a/b; for n in a/b/x a/y .env s.pem; do echo $n > $n; done; \
                     ln -s a l; git add .; echo typed >> s.pem; git add -N z 2>/dev/null || :";

fn git(dir: &Path) -> PathBuf {
    dir.join(".git")
}

#[test]
fn index_written_by_git_is_read_in_each_version_and_hash() {
    for format in ["sha1", "sha256"] {
        for version in [2, 3, 4] {
            let init = format!("git init -q --object-format={format}; {FILES}");
            let script = format!(
                "{init}; git update-index --index-version {version}; \
                 git update-index --skip-worktree a/y"
            );
            let Some(dir) = repository(&script) else { return };
            let index = Index::open(&git(dir.path())).unwrap();
            let paths = [".env", "s.pem", "a/b/x", "a/y", "none"].map(Path::new);
            let read = |path: &Path| std::fs::read(dir.path().join(path)).ok();
            let mut found: Vec<(&Path, bool)> =
                index.compare(paths.into_iter(), read).into_iter().collect();
            found.sort();
            let expected = [(".env", true), ("a/b/x", true), ("a/y", true), ("s.pem", false)]
                .map(|(path, same)| (Path::new(path), same));
            assert_eq!(found, expected, "version {version}, {format}");
        }
    }
}

#[test]
fn git_skips_marked_entries() {
    for (version, hash) in [(2, "sha1"), (3, "sha256"), (4, "sha1")] {
        let script = format!(
            "git init -q --object-format={hash}; {FILES}; git update-index --index-version {version}; \
             git update-index --skip-worktree a/y; git write-tree"
        );
        let Some(dir) = repository(&script) else { return };
        let index = Index::open(&git(dir.path())).unwrap();
        let without = |paths: &[&str]| index.without(paths.iter().map(Path::new));
        assert_eq!(without(&["none", "a/b/x/y", "s.pe"]), None);
        std::fs::write(git(dir.path()).join("index"), without(&["s.pem", "a/b"]).unwrap()).unwrap();
        let script = format!(
            "cd '{}' && rm -r a/b && git fsck --strict --no-dangling && git ls-files -t && git diff --stat",
            dir.path().display()
        );
        let argv = ["/bin/sh", "-ec", &script].map(str::to_owned);
        let output = Launcher::new(Wrappers::none()).run_to_end(&argv, &[], None).unwrap();
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(shown, "H .env\nS a/b/x\nS a/y\nH l\nS s.pem\n", "version {version}");
    }
}

#[test]
fn an_index_whose_rest_is_elsewhere_stays_as_it_is() {
    let script = format!("git init -q; {FILES}; git update-index --split-index");
    let Some(dir) = repository(&script) else { return };
    let index = Index::open(&git(dir.path())).unwrap();
    assert_eq!(index.without([Path::new("s.pem")].into_iter()), None);
    assert_eq!(index.holds(Path::new("none")), None);
}

#[test]
fn a_directory_is_tracked_if_anything_in_it_is() {
    for version in [2, 4] {
        let script = format!(
            "git init -q; {FILES}; git update-index --index-version {version}; mkdir a/untracked"
        );
        let Some(dir) = repository(&script) else { return };
        let index = Index::open(&git(dir.path())).unwrap();
        for (directory, expected) in [
            ("a", true),
            ("a/b", true),
            ("a/b/x", true),
            ("l", true),
            ("a/untracked", false),
            ("a/b/x/y", true),
            ("a/b/xy", false),
            ("s", false),
        ] {
            assert_eq!(index.holds(Path::new(directory)), Some(expected), "{directory}");
        }
    }
}

#[test]
fn a_directory_that_is_tracked_but_not_checked_out_is_tracked() {
    let script = "git init -q; mkdir -p in .moltnet/alice; echo x | tee in/x .moltnet/alice/env; \
                  git add .; git -c user.name=n -c user.email=e commit -qm m; \
                  git sparse-checkout set --cone --sparse-index in; test ! -e .moltnet";
    let Some(dir) = repository(script) else { return };
    let index = Index::open(&git(dir.path())).unwrap();
    assert_eq!(index.holds(Path::new(".moltnet/alice")), Some(true));
    assert_eq!(index.holds(Path::new(".other/alice")), Some(false));
}

#[test]
fn a_directory_in_a_submodule_is_tracked() {
    for version in [2, 4] {
        let script = format!(
            "git init -q; git update-index --index-version {version}; git update-index --add \
             --cacheinfo 160000,{},.moltnet",
            "1".repeat(40)
        );
        let Some(dir) = repository(&script) else { return };
        let index = Index::open(&git(dir.path())).unwrap();
        for (directory, expected) in
            [(".moltnet", true), (".moltnet/alice", true), (".moltnet-2/alice", false)]
        {
            assert_eq!(index.holds(Path::new(directory)), Some(expected), "{directory}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400), version in 0_u8..6, is_long: bool,
    ) {
        for (at, byte) in b"DIRC\0\0\0".iter().chain([&version]).enumerate() {
            if let Some(place) = bytes.get_mut(at) {
                *place = *byte;
            }
        }
        let hash = if is_long { &SHA256 } else { &SHA1_FOR_LEGACY_USE_ONLY };
        let index = Index { bytes, hash };
        index.compare([Path::new("a")].into_iter(), |_| Some(Vec::new()));
        index.without([Path::new("")].into_iter());
    }
}

#[test]
fn only_what_an_index_holds_counts() {
    for version in [2, 4] {
        let script = format!(
            "git init -q; {FILES}; git update-index --index-version {version}; touch n; git add n"
        );
        let Some(dir) = repository(&script) else { return };
        let entries = || Index::open(&git(dir.path())).unwrap().entries();
        let after = |script: &str| {
            let script = format!("cd '{}' && {script}", dir.path().display());
            let argv = ["/bin/sh", "-ec", &script].map(str::to_owned);
            assert_eq!(
                Launcher::new(Wrappers::none()).run_to_end(&argv, &[], None).unwrap().code,
                Some(0),
                "{script}"
            );
            entries()
        };
        let before = entries();
        assert!(before.is_some());
        for same in [
            "sleep 0.01; touch .env; git update-index -q --refresh || :",
            "git update-index --index-version 3",
            "git update-index --assume-unchanged a/y",
        ] {
            assert_eq!(after(same), before, "{same}");
        }
        let mut seen = vec![before];
        for another in [
            "echo other > .env; git add .env",
            "git update-index --chmod=+x .env",
            "git rm -q --cached n",
            "touch n; git add -N n",
            "git add n",
        ] {
            let now = after(another);
            assert!(now.is_some() && seen.last() != Some(&now), "{another}");
            seen.push(now);
        }
        assert_eq!(after("git update-index --split-index"), None);
    }
}

#[test]
fn submodules_are_found() {
    for format in ["sha1", "sha256"] {
        let init = format!("git init -q --object-format={format}; {FILES}");
        let add = "git update-index --add --cacheinfo 160000,$(git rev-parse :s.pem),lib";
        for (script, expected) in [(init.clone(), false), (format!("{init}; {add}"), true)] {
            let Some(dir) = repository(&script) else { return };
            let index = Index::open(&git(dir.path())).unwrap();
            assert_eq!(index.has_submodules(), Some(expected), "{script}");
        }
    }
}
