//! The archive that the kernel unpacks as its first root (Documentation/driver-api/early-userspace/buffer-format.rst).

use crate::modules::Module;

/// `S_IFDIR`, `S_IFREG` and `S_IFCHR` with permissions (inode(7)).
const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
const CONSOLE: u32 = 0o020_600;

/// Where init mounts what it needs.
const DIRECTORIES: [&str; 5] = ["dev", "modules", "proc", "root", "sys"];

/// Returns an archive with a program as `/init`, modules as `/modules/NN-NAME.ko` in the order in which they are to be
/// loaded, and empty directories. The same content gives the same bytes.
#[must_use]
pub fn initramfs(init: &[u8], modules: &[Module]) -> Vec<u8> {
    let mut archive = Archive::default();
    for name in DIRECTORIES {
        archive.add(name, DIRECTORY, (0, 0), &[]);
    }
    // The kernel opens it as the standard streams of init (`console_on_rootfs`, init/main.c).
    archive.add("dev/console", CONSOLE, (5, 1), &[]);
    archive.add("init", PROGRAM, (0, 0), init);
    for (index, module) in modules.iter().enumerate() {
        let name = format!("modules/{index:02}-{}.ko", module.name());
        archive.add(&name, FILE, (0, 0), module.bytes());
    }
    archive.finish()
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        self.bytes.extend_from_slice(b"070701");
        let links = 1;
        let fields = [
            self.entries,
            mode,
            0, // uid
            0, // gid
            links,
            0, // mtime
            content.len() as u32,
            0, // the device that it is on: major
            0, // and minor number
            device.0,
            device.1,
            name.len() as u32 + 1,
            0, // checksum
        ];
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.entries = 0;
        self.add("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests;
