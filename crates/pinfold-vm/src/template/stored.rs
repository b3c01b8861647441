//! The file: a header, which parts of the memory it has, the state of the devices, and these parts.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::{FillError, Snapshot};

/// What a file begins with. Its last byte is the version.
const MAGIC: [u8; 8] = *b"pfmachn\x01";
const PAGE: usize = 4096;
/// What is copied at once, and has one sum.
const CHUNK: usize = 256 << 10;
/// Parts in a file at most.
const MOST_PARTS: u64 = 1 << 20;
/// The state of the devices of a machine has 350 KiB.
pub(crate) const MOST_DEVICES: u64 = 64 << 20;
/// Magic, size of the memory, number of parts, length of the devices' state and of the name.
const HEADER: usize = 8 + 4 * 8;
/// Offset, length and sum.
const PART: usize = 8 + 4 + 4;

/// A part of a machine's memory that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    offset: u64,
    length: u32,
    sum: u32,
}

/// The beginning of a file.
#[derive(Debug)]
pub(super) struct Stored {
    size: u64,
    parts: Vec<Part>,
    pub(super) devices: Vec<u8>,
    /// Where the parts begin.
    start: u64,
}

fn damaged() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

impl Stored {
    /// Reads the beginning of a file of this length.
    ///
    /// # Errors
    /// Returns an error if it is damaged, too short or too long, or of another name.
    pub(super) fn read(mut file: &File, length: u64, name: &str) -> io::Result<Self> {
        let mut header = [0; HEADER];
        file.read_exact(&mut header)?;
        let (magic, numbers) = header.split_at(MAGIC.len());
        let (numbers, _) = numbers.as_chunks::<8>();
        let [size, count, devices, named] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(numbers[at]));
        let is_possible = magic == MAGIC
            && count <= MOST_PARTS
            && devices <= MOST_DEVICES
            && named == name.len() as u64;
        if !is_possible {
            return Err(damaged());
        }
        let mut table = vec![0; count as usize * PART];
        let (mut devices, mut own_name) = (vec![0; devices as usize], vec![0; name.len()]);
        let mut sum = [0; 4];
        for bytes in [&mut table, &mut devices, &mut own_name] {
            file.read_exact(bytes)?;
        }
        file.read_exact(&mut sum)?;
        let found = sum_of(&[&header, &table, &devices, &own_name]);
        if found != u32::from_le_bytes(sum) || own_name != name.as_bytes() {
            return Err(damaged());
        }
        let (table, _) = table.as_chunks::<PART>();
        let parts = table.iter().map(Part::decode).collect::<Vec<_>>();
        let start = (HEADER + count as usize * PART + devices.len() + name.len() + 4) as u64;
        let mut end = 0;
        for part in &parts {
            let is_next = part.offset >= end && part.length > 0 && part.length as usize <= CHUNK;
            end = part.offset.saturating_add(part.length.into());
            if !is_next || end > size {
                return Err(damaged());
            }
        }
        let content: u64 = parts.iter().map(|part| u64::from(part.length)).sum();
        if length != start + content {
            return Err(damaged());
        }
        Ok(Self { size, parts, devices, start })
    }

    /// Returns how large the machine's memory is, in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Copies the parts of a file to a memory of this size.
    ///
    /// # Errors
    /// Returns an error if one is damaged, cannot be read, or cannot be written.
    pub(super) fn copy(&self, file: &File, memory: &File) -> Result<(), FillError> {
        let mut buffer = vec![0; CHUNK];
        let mut at = self.start;
        for part in &self.parts {
            let bytes = &mut buffer[..part.length as usize];
            let is_read = file.read_exact_at(bytes, at).is_ok();
            if !is_read || sum_of(&[bytes]) != part.sum {
                return Err(FillError::Damaged);
            }
            memory.write_all_at(bytes, part.offset).map_err(FillError::Memory)?;
            at += u64::from(part.length);
        }
        Ok(())
    }
}

impl Part {
    fn decode(bytes: &[u8; PART]) -> Self {
        let word =
            |at: usize| bytes[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        let offset = u64::from(word(0)) | u64::from(word(4)) << 32;
        Self { offset, length: word(8), sum: word(12) }
    }

    fn encode(self) -> Vec<u8> {
        let Self { offset, length, sum } = self;
        [&offset.to_le_bytes()[..], &length.to_le_bytes(), &sum.to_le_bytes()].concat()
    }
}

fn sum_of(parts: &[&[u8]]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    parts.iter().for_each(|part| sum.update(part));
    sum.finalize()
}

/// Writes a machine to an empty file.
///
/// # Errors
/// Returns the error of reading the memory or writing the file.
pub(super) fn write(file: &File, name: &str, snapshot: &Snapshot) -> io::Result<()> {
    let memory = File::from(snapshot.memory.try_clone()?);
    let size = memory.metadata()?.len();
    let parts = parts_of(&memory, size)?;
    let numbers = [size, parts.len() as u64, snapshot.devices.len() as u64, name.len() as u64];
    let mut header = MAGIC.to_vec();
    header.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    let table: Vec<u8> = parts.iter().flat_map(|part| part.encode()).collect();
    let beginning = [&header[..], &table, &snapshot.devices, name.as_bytes()];
    let sum = sum_of(&beginning);
    let mut output = BufWriter::with_capacity(CHUNK, file);
    for bytes in beginning {
        output.write_all(bytes)?;
    }
    output.write_all(&sum.to_le_bytes())?;
    let mut buffer = vec![0; CHUNK];
    for part in &parts {
        let bytes = &mut buffer[..part.length as usize];
        memory.read_exact_at(bytes, part.offset)?;
        output.write_all(bytes)?;
    }
    output.flush()
}

/// Finds the parts of a memory that are not empty.
fn parts_of(memory: &File, size: u64) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut buffer = vec![0; CHUNK];
    // A descriptor of its own: where the other one is must not change.
    let holes = File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(memory)))?;
    let mut at = 0;
    loop {
        at = match rustix::fs::seek(&holes, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => return Ok(parts),
            Err(errno) => return Err(errno.into()),
        };
        let end = rustix::fs::seek(&holes, SeekFrom::Hole(at))?;
        while at < end {
            let bytes = &mut buffer[..CHUNK.min((end - at).min(size) as usize)];
            memory.read_exact_at(bytes, at)?;
            for (start, run) in runs(bytes) {
                let sum = sum_of(&[run]);
                parts.push(Part { offset: at + start as u64, length: run.len() as u32, sum });
            }
            at += bytes.len() as u64;
        }
    }
}

/// Returns what lies between pages of zeros, with where it begins.
fn runs(bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let mut found: Vec<(usize, &[u8])> = Vec::new();
    for (index, page) in bytes.chunks(PAGE).enumerate() {
        if page.iter().all(|byte| *byte == 0) {
            continue;
        }
        let start = index * PAGE;
        match found.last_mut() {
            Some((begin, run)) if *begin + run.len() == start => {
                *run = &bytes[*begin..start + page.len()];
            }
            _ => found.push((start, page)),
        }
    }
    found
}
