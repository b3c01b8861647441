use super::*;
use crate::kept::KEPT;

#[test]
fn files_are_complete_before_they_have_their_name() {
    let directory = tempfile::tempdir().unwrap();
    let images = directory.path().join("images");
    let place = images.join("one");
    keep(&images, &place, &[(KERNEL, b"kernel"), (INITRAMFS, b"archive")]).unwrap();
    assert_eq!(fs::read(place.join(KERNEL)).unwrap(), b"kernel");
    // Who comes second takes what is there.
    keep(&images, &place, &[(KERNEL, b"other"), (INITRAMFS, b"other")]).unwrap();
    assert_eq!(fs::read(place.join(KERNEL)).unwrap(), b"kernel");
    assert_eq!(fs::read_dir(&images).unwrap().count(), 1);
    assert_eq!(fs::metadata(&images).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn few_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..2 * KEPT {
        keep(directory.path(), &directory.path().join(number.to_string()), &[]).unwrap();
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), KEPT);
    let newest = (2 * KEPT - 1).to_string();
    assert!(directory.path().join(newest).exists());
}
