use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::Places;

#[test]
fn private_directory_is_not_made_where_others_can_replace_it() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("shared/pinfold/bin");
    fs::create_dir(above.path().join("shared")).unwrap();
    fs::set_permissions(above.path().join("shared"), fs::Permissions::from_mode(0o777)).unwrap();
    for _ in 0..2 {
        let error = Places::make_private(&path).unwrap_err();
        assert!(error.to_string().contains("shared"), "{error}");
    }
    // In a directory like /tmp nobody renames what is another user's.
    fs::set_permissions(above.path().join("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
    Places::make_private(&path).unwrap();
}
