use serde_json::{Value, json};

use super::{Makes, container};
use crate::container::listed::Listed;

#[test]
fn spec_of_a_container_has_this_and_nothing_else() {
    let spec = container("/tmp/root".as_ref(), "pinfold", 3, (1000, 100), Makes::Proc);
    let namespaces = ["pid", "mount", "ipc", "uts", "cgroup"];
    let expected = json!({
        "ociVersion": "1.0.2",
        "annotations": {},
        "hostname": "pinfold",
        "root": { "path": "/tmp/root", "readonly": true },
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": ["/run/pinfold/init", "container-init", "3", "1000", "100"],
            "env": ["PATH=/"],
            "cwd": "/",
            "capabilities": {
                "bounding": ["CAP_SETFCAP"],
                "effective": ["CAP_SETFCAP"],
                "permitted": ["CAP_SETFCAP"],
                "inheritable": [],
                "ambient": [],
            },
            "rlimits": [],
            "noNewPrivileges": true,
        },
        "mounts": [
            {
                "destination": "/proc",
                "type": "proc",
                "source": "proc",
                "options": ["nosuid", "nodev", "noexec"],
            },
            {
                "destination": "/dev",
                "type": "bind",
                "source": "/tmp/root/dev",
                "options": ["rbind", "ro", "nosuid", "noexec"],
            },
        ],
        "linux": {
            "namespaces": namespaces.map(|kind| json!({ "type": kind })),
            "devices": [],
            "rootfsPropagation": "private",
            "maskedPaths": ["/proc/kallsyms", "/proc/modules", "/proc/keys", "/proc/key-users"],
            "readonlyPaths": ["/proc/sys", "/proc/pressure"],
        },
    });
    let written: Value = serde_json::to_value(&spec).unwrap();
    assert_eq!(written, expected);
}

/// What is written below a mount that may be must not depend on what that kernel knows by itself.
#[test]
fn spec_for_an_engine_with_its_own_kernel_lists_each_mount_with_its_access() {
    let listed = [("/a", false), ("/a/b", true)]
        .map(|(path, is_read_only)| Listed { path: path.to_owned(), is_read_only });
    let spec = container("/r".as_ref(), "h", 0, (1, 1), Makes::Kernel(&listed));
    let written = serde_json::to_value(&spec).unwrap();
    assert_eq!(written["root"], json!({ "path": "/r", "readonly": true }));
    let bind = |path: &str, access: &str| {
        json!({
            "destination": path,
            "type": "bind",
            "source": format!("/r{path}"),
            "options": ["rbind", access, "nosuid", "nodev"],
        })
    };
    assert_eq!(written["mounts"][2], bind("/a", "rw"));
    assert_eq!(written["mounts"][3], bind("/a/b", "ro"));
}

/// youki makes links and devices in an empty directory, so everything else there has to be listed,
/// too.
#[test]
fn an_engine_that_makes_devices_gets_an_empty_place_for_them_which_nobody_can_write_to_later() {
    let listed = [("/pts", false), ("/shm", false)]
        .map(|(path, is_read_only)| Listed { path: path.to_owned(), is_read_only });
    let spec = container("/r".as_ref(), "h", 3, (1, 1), Makes::Devices(&listed));
    let written = serde_json::to_value(&spec).unwrap();
    assert_eq!(written["mounts"][1]["type"], "tmpfs");
    for (mount, place) in [(2, "/dev/pts"), (3, "/dev/shm")] {
        let options = ["rbind", "rw", "nosuid"];
        assert_eq!(
            written["mounts"][mount],
            json!({ "destination": place, "type": "bind", "source": place, "options": options })
        );
    }
    let read_only = written["linux"]["readonlyPaths"].as_array().unwrap();
    assert!(read_only.contains(&json!("/dev")));
}

/// The files were written by the crate `oci-spec` from the same values.
#[test]
fn a_configuration_is_byte_for_byte_what_oci_spec_wrote() {
    let listed = [("/pts", false), ("/shm/deep", true)]
        .map(|(path, is_read_only)| Listed { path: path.to_owned(), is_read_only });
    for (makes, expected) in [
        (Makes::Proc, include_str!("tests/proc.json")),
        (Makes::Devices(&listed), include_str!("tests/devices.json")),
        (Makes::Kernel(&listed), include_str!("tests/kernel.json")),
    ] {
        let spec = container("/tmp/root".as_ref(), "pinfold", 3, (1000, 100), makes);
        assert_eq!(serde_json::to_string_pretty(&spec).unwrap(), expected.trim_end(), "{makes:?}");
    }
}
