use std::fs;

use super::*;
use crate::modules::Modules;

/// Name, mode, device and content.
type Entry = (String, u32, (u32, u32), Vec<u8>);

/// Returns what an archive holds, read by the format's rules.
fn entries(archive: &[u8]) -> Vec<Entry> {
    let (mut at, mut found) = (0, Vec::new());
    loop {
        assert_eq!(at % 4, 0);
        assert_eq!(&archive[at..at + 6], b"070701");
        let field = |index: usize| {
            let start = at + 6 + 8 * index;
            let text = std::str::from_utf8(&archive[start..start + 8]).unwrap();
            u32::from_str_radix(text, 16).unwrap()
        };
        let (size, length) = (field(6) as usize, field(11) as usize);
        let name = at + 110;
        let text = String::from_utf8(archive[name..name + length - 1].to_vec()).unwrap();
        assert_eq!(archive[name + length - 1], 0);
        let start = (name + length).next_multiple_of(4);
        if text == "TRAILER!!!" {
            assert_eq!(start, archive.len());
            return found;
        }
        let content = archive[start..start + size].to_vec();
        found.push((text, field(1), (field(9), field(10)), content));
        at = (start + size).next_multiple_of(4);
    }
}

fn module(name: &str, needs: &str, directory: &std::path::Path) {
    let modinfo = format!("depends={needs}\0");
    let modinfo = modinfo.as_bytes();
    let file = crate::elf::tests::Builder { machine: 62, notes: b"", modinfo }.build();
    fs::write(directory.join("kernel").join(format!("{name}.ko")), file).unwrap();
}

#[test]
fn archive_holds_init_and_modules_in_their_order() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("kernel")).unwrap();
    fs::write(directory.path().join("modules.builtin"), "").unwrap();
    module("zeta", "", directory.path());
    module("alpha", "zeta", directory.path());
    let modules = Modules::list(directory.path()).unwrap().in_order(&["alpha"]).unwrap();
    let archive = initramfs(b"program", &modules);
    let entries = entries(&archive);
    let names: Vec<&str> = entries.iter().map(|(name, ..)| name.as_str()).collect();
    let expected = [
        "dev",
        "modules",
        "proc",
        "root",
        "sys",
        "dev/console",
        "init",
        "modules/00-zeta.ko",
        "modules/01-alpha.ko",
    ];
    assert_eq!(names, expected);
    assert_eq!(entries[5].1, 0o020_600);
    assert_eq!(entries[5].2, (5, 1));
    assert_eq!((entries[6].1, entries[6].3.as_slice()), (0o100_755, &b"program"[..]));
    assert_eq!(entries[8].3, modules[1].bytes());
    assert_eq!(archive, initramfs(b"program", &modules));
}
