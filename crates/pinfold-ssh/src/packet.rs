//! Packets (RFC 4253, section 6), in the clear and sealed by chacha20-poly1305@openssh.com.

use std::io::{Read, Write};

use ring::aead::chacha20_poly1305_openssh::{KEY_LEN, OpeningKey, SealingKey, TAG_LEN};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::SshError;

/// The largest packet that is taken. Implementations have to take 35000 bytes (RFC 4253, 6.1); OpenSSH sends at most
/// 256 KiB.
const LARGEST: usize = 256 << 10;
/// The length of a packet is a multiple of this.
const BLOCK: usize = 8;

/// A key of one direction.
pub(crate) type Key = [u8; KEY_LEN];

/// Reads packets.
pub(crate) struct Incoming<R> {
    stream: R,
    key: Option<OpeningKey>,
    sequence: u32,
}

/// Writes packets.
pub(crate) struct Outgoing<W> {
    stream: W,
    key: Option<SealingKey>,
    sequence: u32,
}

impl<R: Read> Incoming<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self { stream, key: None, sequence: 0 }
    }

    /// Reads a line in front of the packets, of at most 255 bytes.
    pub(crate) fn line(&mut self) -> Result<Vec<u8>, SshError> {
        const LONGEST: usize = 255;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            if line.len() == LONGEST {
                return Err(SshError::Malformed("a first line that is too long"));
            }
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        line.pop();
        if line.ends_with(b"\r") {
            line.pop();
        }
        Ok(line)
    }

    /// Reads a packet's payload, which is not empty; nothing at the end of the stream.
    pub(crate) fn packet(&mut self) -> Result<Option<Vec<u8>>, SshError> {
        let mut head = [0; 4];
        if self.stream.read(&mut head[..1])? == 0 {
            return Ok(None);
        }
        self.stream.read_exact(&mut head[1..])?;
        let sequence = self.sequence;
        let length = match &self.key {
            Some(key) => key.decrypt_packet_length(sequence, head),
            None => head,
        };
        let length = u32::from_be_bytes(length) as usize;
        if !(BLOCK..=LARGEST).contains(&length) {
            return Err(SshError::Malformed("a packet of an impossible length"));
        }
        let mut packet = head.to_vec();
        packet.resize(4 + length, 0);
        self.stream.read_exact(&mut packet[4..])?;
        let content = match &self.key {
            Some(key) => {
                let mut tag = [0; TAG_LEN];
                self.stream.read_exact(&mut tag)?;
                let opened = key.open_in_place(sequence, &mut packet, &tag);
                opened.map_err(|_| SshError::Malformed("a packet that was changed"))?
            }
            None => &packet[4..],
        };
        self.sequence = sequence.wrapping_add(1);
        let padding = content.first().map_or(0, |padding| usize::from(*padding));
        let end = content.len().checked_sub(padding).filter(|end| *end > 1);
        let end = end.ok_or(SshError::Malformed("a packet of padding alone"))?;
        Ok(Some(content[1..end].to_vec()))
    }

    /// Returns the number of the last packet.
    pub(crate) fn last_sequence(&self) -> u32 {
        self.sequence.wrapping_sub(1)
    }

    /// Uses this key from here on.
    pub(crate) fn rekey(&mut self, key: &Key, is_strict: bool) {
        self.key = Some(OpeningKey::new(key));
        if is_strict {
            self.sequence = 0;
        }
    }
}

impl<W: Write> Outgoing<W> {
    pub(crate) fn new(stream: W) -> Self {
        Self { stream, key: None, sequence: 0 }
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), SshError> {
        self.stream.write_all(bytes)?;
        Ok(self.stream.flush()?)
    }

    /// Writes a packet with this payload.
    pub(crate) fn packet(&mut self, payload: &[u8]) -> Result<(), SshError> {
        // The length is not a part of what is padded once packets are sealed.
        let head = if self.key.is_some() { 1 } else { 5 };
        let mut padding = BLOCK - (head + payload.len()) % BLOCK;
        if padding < 4 {
            padding += BLOCK;
        }
        let length = 1 + payload.len() + padding;
        let too_long = |_| SshError::Malformed("a request whose answer is too long");
        let mut packet = Vec::with_capacity(4 + length + TAG_LEN);
        packet.extend(u32::try_from(length).map_err(too_long)?.to_be_bytes());
        packet.push(u8::try_from(padding).map_err(too_long)?);
        packet.extend(payload);
        let end = packet.len();
        packet.resize(end + padding, 0);
        let random = SystemRandom::new().fill(&mut packet[end..]);
        random.map_err(|_| SshError::Crypto("no random bytes"))?;
        if let Some(key) = &self.key {
            let mut tag = [0; TAG_LEN];
            key.seal_in_place(self.sequence, &mut packet, &mut tag);
            packet.extend(tag);
        }
        self.sequence = self.sequence.wrapping_add(1);
        self.raw(&packet)
    }

    /// Uses this key from here on.
    pub(crate) fn rekey(&mut self, key: &Key, is_strict: bool) {
        self.key = Some(SealingKey::new(key));
        if is_strict {
            self.sequence = 0;
        }
    }
}

#[cfg(any(fuzzing, test))]
impl Outgoing<Vec<u8>> {
    pub(crate) fn written(&self) -> &[u8] {
        &self.stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = [7; KEY_LEN];

    fn sealed(payloads: &[&[u8]]) -> Vec<u8> {
        let mut stream = Vec::new();
        let mut outgoing = Outgoing::new(&mut stream);
        outgoing.rekey(&KEY, true);
        payloads.iter().for_each(|payload| outgoing.packet(payload).unwrap());
        stream
    }

    fn opened(stream: &[u8]) -> Incoming<&[u8]> {
        let mut incoming = Incoming::new(stream);
        incoming.rekey(&KEY, true);
        incoming
    }

    #[test]
    fn packets_come_as_they_went_in_the_clear_and_sealed() {
        let long = vec![5; 40_000];
        let payloads: [&[u8]; 4] = [b"a", b"abcdefgh", &long, b"end"];
        let mut clear = Vec::new();
        let mut outgoing = Outgoing::new(&mut clear);
        payloads.iter().for_each(|payload| outgoing.packet(payload).unwrap());
        let stream = sealed(&payloads);
        let (mut one, mut other) = (Incoming::new(clear.as_slice()), opened(&stream));
        for payload in payloads {
            assert_eq!(one.packet().unwrap().as_deref(), Some(payload));
            assert_eq!(other.packet().unwrap().as_deref(), Some(payload));
        }
        assert!(one.packet().unwrap().is_none() && other.packet().unwrap().is_none());
    }

    #[test]
    fn changed_reordered_and_impossible_packets_end_the_connection() {
        let stream = sealed(&[b"first", b"second"]);
        for at in 0..stream.len() / 2 {
            let mut changed = stream.clone();
            changed[at] ^= 1;
            assert!(opened(&changed).packet().is_err(), "byte {at}");
        }
        let half = stream.len() / 2;
        assert!(opened(&stream[half..]).packet().is_err(), "the second one in place of the first");
        assert!(opened(&stream[..half - 1]).packet().is_err(), "cut short");
        for length in [0_u32, 1, 7, 300_000, u32::MAX] {
            let packet = [&length.to_be_bytes()[..], &[0; 64]].concat();
            assert!(Incoming::new(packet.as_slice()).packet().is_err(), "{length}");
        }
        let padded = [&8_u32.to_be_bytes()[..], &[255; 8]].concat();
        assert!(Incoming::new(padded.as_slice()).packet().is_err());
    }
}
