use std::fs;

use super::*;

fn file(root: &Path, path: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "").unwrap();
}

#[test]
fn newest_release_with_an_image_is_found_in_a_package() {
    let root = tempfile::tempdir().unwrap();
    for release in
        ["6.9.12-cloud", "6.12.95+deb12-cloud", "6.12.9+deb12-cloud", "7.0-without-image"]
    {
        file(root.path(), &format!("lib/modules/{release}/modules.builtin"));
    }
    file(root.path(), "boot/vmlinuz-6.9.12-cloud");
    file(root.path(), "boot/vmlinuz-6.12.9+deb12-cloud");
    file(root.path(), "lib/modules/6.12.95+deb12-cloud/vmlinuz");
    let kernel = Kernel::below(root.path()).unwrap();
    assert_eq!(kernel.release(), "6.12.95+deb12-cloud");
    assert_eq!(kernel.image, root.path().join("lib/modules/6.12.95+deb12-cloud/vmlinuz"));
}

#[test]
fn missing_kernel_names_each_place_that_was_tried() {
    let root = tempfile::tempdir().unwrap();
    file(root.path(), "lib/modules/6.1/modules.builtin");
    let error = Kernel::below(root.path()).unwrap_err().to_string();
    for part in ["boot/vmlinuz-6.1", "lib/modules/6.1/vmlinuz", "usr/lib/modules: No such file"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn image_that_is_no_kernel_is_named() {
    let root = tempfile::tempdir().unwrap();
    file(root.path(), "lib/modules/6.1/vmlinuz");
    let error = Kernel::below(root.path()).unwrap().vmlinux(Architecture::HOST);
    let error = error.unwrap_err().to_string();
    let name = Architecture::HOST.name;
    let expected = format!("lib/modules/6.1/vmlinuz: not a kernel image for {name}");
    assert!(error.ends_with(&expected), "{error}");
}
