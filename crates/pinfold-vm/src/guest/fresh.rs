//! What a guest that was restored must not share with the others of its template: randomness and the time of day.

use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pinfold_wire::{DecodeError, Reader, Wire, Writer};
use rustix::io::Errno;
use rustix::ioctl::{NoArg, Setter, opcode};
use rustix::rand::GetRandomFlags;
use rustix::time::{ClockId, Timespec};

/// Bytes of a seed, which is more than the kernel's generator holds (256 bits).
const SEED: usize = 64;
const WORDS: usize = SEED / 4;
/// `RNDADDENTROPY` and `RNDRESEEDCRNG` (random(4), include/uapi/linux/random.h).
const ADD: rustix::ioctl::Opcode = opcode::write::<[i32; 2]>(b'R', 3);
const RESEED: rustix::ioctl::Opcode = opcode::none(b'R', 7);

/// What one guest gets and no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fresh {
    seed: [u8; SEED],
    /// Since 1970.
    time: Duration,
}

/// `struct rand_pool_info`.
#[repr(C)]
struct Entropy {
    bits: i32,
    bytes: i32,
    seed: [u32; WORDS],
}

impl Fresh {
    /// Takes both from this machine.
    ///
    /// # Errors
    /// Returns the error of getrandom(2).
    pub(crate) fn now() -> Result<Self, Errno> {
        let mut seed = [0; SEED];
        let mut filled = 0;
        while filled < SEED {
            let next = &mut seed[filled..];
            filled += rustix::io::retry_on_intr(|| {
                rustix::rand::getrandom(&mut *next, GetRandomFlags::empty())
            })?;
        }
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self { seed, time })
    }

    /// Seeds the kernel's generator and sets its clock. The caller is root of a guest.
    ///
    /// # Errors
    /// Returns the error of what is not fresh then.
    pub(crate) fn apply(&self) -> Result<(), Errno> {
        let random = File::open("/dev/urandom").map_err(|_| Errno::NODEV)?;
        let mut seed = [0; WORDS];
        let (chunks, _) = self.seed.as_chunks::<4>();
        for (word, chunk) in seed.iter_mut().zip(chunks) {
            *word = u32::from_ne_bytes(*chunk);
        }
        let entropy = Entropy { bits: 8 * SEED as i32, bytes: SEED as i32, seed };
        // SAFETY: the call reads a `rand_pool_info` (random(4)) whose `buf_size` is the length of the array that follows
        // in the same value, which lives until it returns.
        unsafe { rustix::ioctl::ioctl(&random, Setter::<ADD, Entropy>::new(entropy))? };
        // What was mixed in counts at once, and not after a minute.
        // SAFETY: the call takes no argument and touches no memory of this process.
        unsafe { rustix::ioctl::ioctl(&random, NoArg::<RESEED>::new())? };
        let time = Timespec {
            tv_sec: i64::try_from(self.time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: self.time.subsec_nanos().into(),
        };
        rustix::time::clock_settime(ClockId::Realtime, time)
    }
}

impl Wire for Fresh {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.bytes(&self.seed).u64(self.time.as_secs()).u32(self.time.subsec_nanos());
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let seed = reader.bytes()?.try_into().map_err(|_| DecodeError::CutShort)?;
        let time = Duration::from_secs(reader.u64()?) + Duration::from_nanos(reader.u32()?.into());
        reader.finish()?;
        Ok(Self { seed, time })
    }
}

#[cfg(test)]
mod tests;
