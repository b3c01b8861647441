//! What is read of ELF files of 64 bits, little-endian (elf(5)).

/// `e_machine` of x86-64.
pub(crate) const X86_64: u16 = 62;
/// `e_machine` of aarch64.
#[cfg(test)]
pub(crate) const AARCH64: u16 = 183;

const PT_NOTE: u32 = 4;
/// Program headers and bytes of notes that are looked at. Debian's kernels have 6 and 500.
const MOST_HEADERS: u16 = 64;
const MOST_NOTES: u64 = 64 << 10;

/// Cuts off what no program header names, such as the symbols for a debugger: nothing of it is loaded. What is not such a
/// file stays as it is.
pub(crate) fn without_sections(mut file: Vec<u8>) -> Vec<u8> {
    /// `e_shoff`, `e_shnum` and `e_shstrndx`.
    const SECTIONS: [std::ops::Range<usize>; 2] = [40..48, 60..64];
    let Some(end) = Elf::new(&file).and_then(Elf::end_of_content) else { return file };
    if end >= 64 && end < file.len() {
        file.truncate(end);
        for range in SECTIONS {
            file[range].fill(0);
        }
    }
    file
}

/// A file that begins like such an ELF file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elf<'a>(&'a [u8]);

impl<'a> Elf<'a> {
    pub(crate) fn new(file: &'a [u8]) -> Option<Self> {
        const LITTLE_64: &[u8] = b"\x7fELF\x02\x01";
        (file.starts_with(LITTLE_64) && file.len() >= 64).then_some(Self(file))
    }

    pub(crate) fn machine(self) -> Option<u16> {
        self.u16(18)
    }

    /// Returns the section of a name.
    pub(crate) fn section(self, name: &str) -> Option<&'a [u8]> {
        let names = self.content(self.section_header(self.u16(62)?.into())?)?;
        (0..usize::from(self.u16(60)?)).find_map(|index| {
            let header = self.section_header(index)?;
            let at = usize::try_from(self.u32(header)?).ok()?;
            let rest = names.get(at..)?.strip_prefix(name.as_bytes())?;
            rest.starts_with(b"\0").then(|| self.content(header))?
        })
    }

    /// Returns where the header of a section begins.
    fn section_header(self, index: usize) -> Option<usize> {
        let size = usize::from(self.u16(58)?);
        let start = usize::try_from(self.u64(40)?).ok()?;
        start.checked_add(index.checked_mul(size)?)
    }

    /// Returns what a section holds.
    fn content(self, header: usize) -> Option<&'a [u8]> {
        self.range(self.u64(header.checked_add(24)?)?, self.u64(header.checked_add(32)?)?)
    }

    /// Returns whether a program header names a note of this owner and type.
    pub(crate) fn has_note(self, owner: &[u8], kind: u32) -> bool {
        let count = self.u16(56).unwrap_or(0).min(MOST_HEADERS);
        (0..usize::from(count))
            .any(|index| self.notes(index).is_some_and(|notes| is_among(notes, owner, kind)))
    }

    /// Returns the notes of a program header that has some.
    fn notes(self, index: usize) -> Option<&'a [u8]> {
        let size = usize::from(self.u16(54)?);
        let header = usize::try_from(self.u64(32)?).ok()?.checked_add(index.checked_mul(size)?)?;
        let is_note = self.u32(header)? == PT_NOTE;
        let place = (self.u64(header.checked_add(8)?)?, self.u64(header.checked_add(32)?)?);
        is_note.then(|| self.range(place.0, place.1.min(MOST_NOTES)))?
    }

    /// Returns where the last byte that a program header names is followed by others.
    fn end_of_content(self) -> Option<usize> {
        let (headers, size) = (usize::try_from(self.u64(32)?).ok()?, usize::from(self.u16(54)?));
        let count = usize::from(self.u16(56)?);
        let mut end = headers.checked_add(size.checked_mul(count)?)?;
        for index in 0..count {
            let header = headers.checked_add(index.checked_mul(size)?)?;
            let (start, length) =
                (self.u64(header.checked_add(8)?)?, self.u64(header.checked_add(32)?)?);
            end = end.max(usize::try_from(start.checked_add(length)?).ok()?);
        }
        (count > 0).then_some(end)
    }

    fn range(self, start: u64, length: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(start).ok()?;
        self.0.get(start..start.checked_add(usize::try_from(length).ok()?)?)
    }

    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..)?.first_chunk().copied()
    }

    fn u16(self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    fn u32(self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    fn u64(self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }
}

/// Returns whether a note is among those that follow each other: lengths of owner and content, type,
/// both padded to 4.
fn is_among(mut notes: &[u8], owner: &[u8], kind: u32) -> bool {
    loop {
        let Some((header, rest)) = notes.split_first_chunk::<12>() else { return false };
        let [owner_length, length, found] = [0, 4, 8]
            .map(|at| header[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word)));
        let padded = |length: u32| (length as usize).next_multiple_of(4);
        let Some(name) = rest.get(..owner_length as usize) else { return false };
        if found == kind && name == owner {
            return true;
        }
        let Some(after) = rest.get(padded(owner_length) + padded(length)..) else { return false };
        notes = after;
    }
}

#[cfg(test)]
pub(crate) mod tests;
