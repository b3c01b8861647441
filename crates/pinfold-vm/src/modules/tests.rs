use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::elf::X86_64;
use crate::elf::tests::Builder;

/// Returns a directory of modules, each with what it needs, as `depends` or with more lines after that.
fn directory(modules: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("modules.builtin"), "kernel/fs/fuse/fuse.ko\nkernel/fs/fuse/virtiofs.ko\n")
        .unwrap();
    fs::create_dir_all(path.join("kernel/drivers/block")).unwrap();
    for (file, needs) in modules {
        let modinfo = format!("license=GPL\0depends={needs}\0name=x\0");
        let module = Builder { machine: X86_64, notes: b"", modinfo: modinfo.as_bytes() }.build();
        fs::write(path.join("kernel/drivers").join(file), module).unwrap();
    }
    directory
}

fn order(modules: &[(&str, &str)], wanted: &[&str]) -> Result<Vec<String>, String> {
    let directory = directory(modules);
    let modules = Modules::list(directory.path())
        .and_then(|modules| modules.in_order(wanted))
        .map_err(|error| error.to_string())?;
    Ok(modules.into_iter().map(|module| module.name).collect())
}

#[test]
fn each_module_comes_once_and_after_what_it_needs() {
    let modules = [
        ("a.ko", "b,c-d"),
        ("b.ko", "c_d,fuse"),
        ("block/c-d.ko", ""),
        ("e.ko", "a"),
        ("unused.ko", "missing"),
    ];
    assert_eq!(order(&modules, &["e", "b", "virtiofs"]).unwrap(), ["c_d", "b", "a", "e"]);
    assert_eq!(order(&modules, &["virtiofs"]).unwrap(), [""; 0]);
}

#[test]
fn what_a_module_looks_for_when_it_starts_comes_before_it_if_it_is_there() {
    let modules = [
        ("sum.ko", "\0softdep=post: later pre: crc32c other-name missing post: later"),
        ("crc32c_generic.ko", ""),
        ("other-name.ko", "below"),
        ("below.ko", ""),
        ("later.ko", ""),
    ];
    let expected = ["crc32c_generic", "below", "other_name", "sum"];
    assert_eq!(order(&modules, &["sum"]).unwrap(), expected);
}

#[test]
fn missing_and_circular_modules_are_named() {
    let error = order(&[("a.ko", "b")], &["a"]).unwrap_err();
    assert!(
        error.starts_with("the kernel has no b, neither built in nor as a module below /"),
        "{error}"
    );
    let circle = [("a.ko", "b"), ("b.ko", "a")];
    assert!(order(&circle, &["a"]).unwrap_err().ends_with("at a"));
    let chain: Vec<_> = (0..100).map(|at| (format!("m{at}.ko"), format!("m{}", at + 1))).collect();
    let chain: Vec<_> = chain.iter().map(|(file, needs)| (file.as_str(), needs.as_str())).collect();
    assert!(order(&chain, &["m0"]).unwrap_err().ends_with("at m64"));
}

#[test]
fn file_that_is_no_module_is_refused() {
    let directory = directory(&[]);
    let path = directory.path().join("kernel/a.ko");
    fs::write(&path, "text").unwrap();
    let error = Modules::list(directory.path()).unwrap().in_order(&["a"]).unwrap_err();
    assert!(matches!(error, ModuleError::NotAModule(at) if at == path));
}

#[test]
fn links_are_not_followed_and_odd_names_are_no_modules() {
    let directory = directory(&[("a.ko", "")]);
    let kernel = directory.path().join("kernel");
    symlink("/", kernel.join("root")).unwrap();
    symlink(kernel.join("drivers/a.ko"), kernel.join("link.ko")).unwrap();
    symlink(&kernel, kernel.join("circle")).unwrap();
    for name in [".ko", "a b.ko", "a\n.ko", "x.ko.exe"] {
        fs::write(kernel.join(name), "").unwrap();
    }
    let modules = Modules::list(directory.path()).unwrap();
    assert_eq!(modules.files.keys().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn pipe_in_place_of_a_list_or_module_is_refused_at_once() {
    let directory = directory(&[]);
    let list = directory.path().join("modules.builtin");
    fs::remove_file(&list).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &list,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let error = Modules::list(directory.path()).unwrap_err();
    assert!(matches!(error, ModuleError::Read(ReadError::NotRegular(_))), "{error}");
}

#[test]
fn directory_that_is_too_deep_is_refused() {
    let directory = directory(&[]);
    let deep = "d/".repeat(DEEPEST + 2);
    fs::create_dir_all(directory.path().join("kernel").join(deep)).unwrap();
    fs::write(directory.path().join("kernel").join("d/".repeat(DEEPEST + 2)).join("a.ko"), "")
        .unwrap();
    let error = Modules::list(directory.path()).unwrap_err();
    assert!(matches!(error, ModuleError::TooMany(_)));
}
