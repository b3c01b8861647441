//! A tree as bytes, for the guest's first process.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use pinfold_boundary::Door;
use pinfold_wire::{DecodeError, Reader, Wire, Writer};

use super::{Beneath, Place, Tree};

impl Wire for Tree {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        writer.u32(self.ids.0).u32(self.ids.1);
        writer.bytes(self.hostname.as_bytes()).bytes(&bytes(&self.home));
        writer.u64(self.disk).u64(self.files);
        writer.u32(self.private.len() as u32);
        for path in &self.private {
            writer.bytes(&bytes(path));
        }
        writer.u32(self.beneath.len() as u32);
        for place in &self.beneath {
            writer.bytes(&bytes(&place.path)).u8((place.kind == Beneath::Made).into());
        }
        writer.u32(self.doors.len() as u32);
        for door in &self.doors {
            writer.bytes(&door.encode());
        }
        writer.u8(self.is_nested.into());
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let ids = (reader.u32()?, reader.u32()?);
        let hostname = String::from_utf8_lossy(&reader.bytes()?).into_owned();
        let home = path(&mut reader)?;
        let (disk, files) = (reader.u64()?, reader.u64()?);
        let private = (0..reader.u32()?).map(|_| path(&mut reader)).collect::<Result<_, _>>()?;
        let mut beneath = Vec::new();
        for _ in 0..reader.u32()? {
            let path = path(&mut reader)?;
            let kind = if reader.u8()? == 1 { Beneath::Made } else { Beneath::Granted };
            beneath.push(Place { path, kind });
        }
        let doors = (0..reader.u32()?).map(|_| Door::decode(&reader.bytes()?));
        let doors = doors.collect::<Result<_, _>>()?;
        let is_nested = reader.u8()? == 1;
        reader.finish()?;
        Ok(Self { ids, hostname, home, disk, files, private, beneath, doors, is_nested })
    }
}

fn path(reader: &mut Reader<'_>) -> Result<PathBuf, DecodeError> {
    Ok(OsString::from_vec(reader.bytes()?).into())
}
