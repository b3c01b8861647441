use super::*;
use crate::kept::KEPT;

#[test]
fn files_are_complete_before_they_have_their_name() {
    let directory = tempfile::tempdir().unwrap();
    let images = directory.path().join("images");
    kept::make_directory(&images).unwrap();
    let place = images.join("one");
    keep(&images, &place, &[(KERNEL, b"kernel"), (INITRAMFS, b"archive")]).unwrap();
    assert_eq!(fs::read(place.join(KERNEL)).unwrap(), b"kernel");
    // The second caller takes what is there.
    keep(&images, &place, &[(KERNEL, b"other"), (INITRAMFS, b"other")]).unwrap();
    assert_eq!(fs::read(place.join(KERNEL)).unwrap(), b"kernel");
    assert_eq!(fs::read_dir(&images).unwrap().count(), 1);
}

/// What is damaged would be booted again and again otherwise.
#[test]
fn what_is_not_whole_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("one");
    let other = directory.path().join("other");
    let make = || {
        keep(directory.path(), &place, &[(KERNEL, b"kernel"), (INITRAMFS, b"archive")]).unwrap();
    };
    let damages: [&dyn Fn(); 8] = [
        &|| fs::remove_file(place.join(KERNEL)).unwrap(),
        &|| fs::remove_file(place.join(STATE)).unwrap(),
        &|| File::options().write(true).open(place.join(INITRAMFS)).unwrap().set_len(3).unwrap(),
        // As long as it was. What was just written may have the same time.
        &|| {
            fs::write(place.join(KERNEL), "KERNEL").unwrap();
            let file = File::options().write(true).open(place.join(KERNEL)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        },
        &|| {
            fs::rename(place.join(KERNEL), &other).unwrap();
            std::os::unix::fs::symlink(&other, place.join(KERNEL)).unwrap();
        },
        &|| {
            fs::rename(&place, &other).unwrap();
            std::os::unix::fs::symlink(&other, &place).unwrap();
        },
        &|| {
            fs::remove_dir_all(&place).unwrap();
            std::os::unix::fs::symlink("/nonexistent", &place).unwrap();
        },
        &|| {
            fs::remove_dir_all(&place).unwrap();
            fs::write(&place, "").unwrap();
        },
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        make();
        assert!(is_whole(&place, &[KERNEL, INITRAMFS]), "{number}");
        damage();
        assert!(!is_whole(&place, &[KERNEL, INITRAMFS]), "{number}");
        make();
        assert_eq!(fs::read(place.join(KERNEL)).unwrap(), b"kernel", "{number}");
        assert_eq!(fs::read(place.join(INITRAMFS)).unwrap(), b"archive", "{number}");
        kept::remove(&other);
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn one_that_is_used_outlives_newer_ones() {
    let directory = tempfile::tempdir().unwrap();
    let name = |number: usize| directory.path().join(format!("6.1.0-{number:016x}"));
    for number in 0..3 * KEPT {
        keep(directory.path(), &name(number), &[]).unwrap();
        kept::mark_used(&name(0));
    }
    assert!(is_whole(&name(0), &[]));
}

#[test]
fn few_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let name = |number: usize| format!("6.1.0-{number:016x}");
    for number in 0..2 * KEPT {
        keep(directory.path(), &directory.path().join(name(number)), &[]).unwrap();
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), KEPT);
    assert!(directory.path().join(name(2 * KEPT - 1)).exists());
}
