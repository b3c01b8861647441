//! What a session can do to the scratch sandboxes in which git reads its private directory.

use std::fs;

use super::common::{sites, text};

/// `git write-tree` runs a hook (post-index-change). In the scratch sandbox it could leave a link for
/// the host to write through, or objects that nobody has checked.
#[test]
fn hooks_of_a_session_run_in_no_scratch_sandbox() {
    for site in sites() {
        let case = site.repository();
        let precious = case.path().with_file_name("precious");
        case.host("echo mine > ../precious");
        let hook = format!(
            "#!/bin/sh\\nfor name in updates new bring-refs; do ln -s {} /q/out/$name; done; exit 0\\n",
            precious.display()
        );
        let script = format!(
            "mkdir -p .git/hooks; printf '{hook}' > .git/hooks/post-index-change; \
             cp .git/hooks/post-index-change .git/hooks/reference-transaction; \
             chmod +x .git/hooks/*; echo y >> file; git commit -qam second 2>/dev/null; git branch b; \
             echo z >> file; git add file 2>/dev/null; sleep 1"
        );
        let (_, stderr) = text(&case.inside(&script));
        assert_eq!(fs::read_to_string(&precious).unwrap(), "mine\n", "{site}: {stderr}");
        assert_eq!(case.host("git log -1 --format=%s"), "second\n", "{site}: {stderr}");
    }
}

/// The session can put a link in the place of its private directory at any moment.
#[test]
fn a_scratch_sandbox_goes_through_no_link_to_a_private_directory() {
    for site in sites() {
        let case = site.repository();
        case.host(
            "top=$PWD; mkdir -p ../out/asked ../out/said; chmod 777 ../out/said; cd ../out/asked; \
             touch tips worktrees; cp -r \"$top/.git\" ../../other; ln -s other ../../link",
        );
        let above = case.path().parent().unwrap();
        let export = |copy: &str| {
            let at = |name: &str| above.join(name).display().to_string();
            let (host, copy, out) = (at("work/.git"), at(copy), at("out"));
            case.pinfold_itself(&["import-objects", "export", &host, &copy, "/q/base", &out])
        };
        let (_, said) = text(&export("link"));
        assert!(!above.join("out/said/refs").exists(), "{site}: {said}");
        let (_, said) = text(&export("other"));
        assert!(above.join("out/said/refs").exists(), "{site}: {said}");
    }
}
