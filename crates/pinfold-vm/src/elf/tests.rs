use super::*;

/// A small ELF file: a header, one program header of notes, and the sections `.modinfo` and `.shstrtab`.
pub(crate) struct Builder<'a> {
    pub(crate) machine: u16,
    pub(crate) notes: &'a [u8],
    pub(crate) modinfo: &'a [u8],
}

const NAMES: &[u8] = b"\0.modinfo\0.shstrtab\0";

impl Builder<'_> {
    pub(crate) fn build(&self) -> Vec<u8> {
        let notes = 64 + 56;
        let modinfo = notes + self.notes.len();
        let names = modinfo + self.modinfo.len();
        let sections = names + NAMES.len();
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(18, &self.machine.to_le_bytes());
        put(32, &64_u64.to_le_bytes());
        put(40, &(sections as u64).to_le_bytes());
        for (at, value) in [(54, 56_u16), (56, 1), (58, 64), (60, 3), (62, 2)] {
            put(at, &value.to_le_bytes());
        }
        let mut header = [0; 56];
        header[..4].copy_from_slice(&PT_NOTE.to_le_bytes());
        header[8..16].copy_from_slice(&(notes as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(self.notes.len() as u64).to_le_bytes());
        file.extend_from_slice(&header);
        file.extend([self.notes, self.modinfo, NAMES].concat());
        for (name, start, length) in
            [(0, 0, 0), (1, modinfo, self.modinfo.len()), (10, names, NAMES.len())]
        {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&(name as u32).to_le_bytes());
            header[24..32].copy_from_slice(&(start as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(length as u64).to_le_bytes());
            file.extend_from_slice(&header);
        }
        file
    }
}

const NOTES: &[u8] = b"\x04\0\0\0\x04\0\0\0\x12\0\0\0Xen\0\0\0\0\x01";

#[test]
fn sections_and_notes_are_found() {
    let file = Builder { machine: X86_64, notes: NOTES, modinfo: b"depends=a,b\0" }.build();
    let elf = Elf::new(&file).unwrap();
    assert_eq!(elf.machine(), Some(X86_64));
    assert_eq!(elf.section(".modinfo"), Some(&b"depends=a,b\0"[..]));
    assert_eq!(elf.section(".text"), None);
    assert!(elf.has_note(b"Xen\0", 18));
    assert!(!elf.has_note(b"Xen\0", 17));
    assert!(!elf.has_note(b"GNU\0", 18));
}

/// Each byte in turn is given each of some values, and the file is cut at each length.
#[test]
fn damaged_files_are_read_or_refused_without_a_panic() {
    let file = Builder { machine: X86_64, notes: NOTES, modinfo: b"depends=a\0" }.build();
    let look = |file: &[u8]| {
        if let Some(elf) = Elf::new(file) {
            let _ = (elf.machine(), elf.section(".modinfo"), elf.has_note(b"Xen\0", 18));
        }
    };
    for at in 0..file.len() {
        look(&file[..at]);
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = file.clone();
            damaged[at] = value;
            look(&damaged);
            damaged[at..].fill(value);
            look(&damaged);
        }
    }
}
