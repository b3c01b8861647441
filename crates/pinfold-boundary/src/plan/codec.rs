//! A plan as bytes, for an init that makes the sandbox itself.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_wire::{DecodeError, Reader, Wire, Writer};

use super::{
    Changes, CpuShare, Door, Entry, Identity, Landlock, LaunchPlan, Lower, Place, ResourceLimits,
};

impl Wire for LaunchPlan {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u32(self.tree.len() as u32);
        for Entry { path, place } in &self.tree {
            write_place(writer.bytes(path.as_bytes()), place);
        }
        let Identity { uid, gid, home } = &self.identity;
        writer.u32(*uid).u32(*gid).bytes(home.as_bytes()).bytes(self.hostname.as_bytes());
        writer.u32(self.doors.len() as u32);
        for door in &self.doors {
            write_door(&mut writer, door);
        }
        let ResourceLimits { memory, cpus, pids, disk, changes, files } = self.limits;
        for number in [memory, pids, disk, changes, files] {
            writer.u8(number.is_some().into()).u64(number.unwrap_or(0));
        }
        let share = cpus.unwrap_or(CpuShare { thousandths: 0, required: false });
        writer.u8(cpus.is_some().into()).u32(share.thousandths).u8(share.required.into());
        match self.landlock {
            Landlock::Required => writer.u8(0),
            Landlock::BestEffort => writer.u8(1),
            Landlock::AtMost(abi) => writer.u8(2).u32(abi),
        };
        writer.u8(self.nested.into()).u8(self.leaves_nothing.into());
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let mut tree = Vec::new();
        for _ in 0..reader.u32()? {
            let path = inside(&mut reader)?;
            tree.push(Entry { path, place: read_place(&mut reader)? });
        }
        let (uid, gid) = (reader.u32()?, reader.u32()?);
        let identity = Identity { uid, gid, home: inside(&mut reader)? };
        let hostname = text(&mut reader)?;
        let mut doors = Vec::new();
        for _ in 0..reader.u32()? {
            doors.push(read_door(&mut reader)?);
        }
        let mut number = || -> Result<Option<u64>, DecodeError> {
            let (is, number) = (truth(&mut reader)?, reader.u64()?);
            Ok(is.then_some(number))
        };
        let (memory, pids, disk) = (number()?, number()?, number()?);
        let (changes, files) = (number()?, number()?);
        let is_shared = truth(&mut reader)?;
        let share = CpuShare { thousandths: reader.u32()?, required: truth(&mut reader)? };
        let cpus = is_shared.then_some(share);
        let limits = ResourceLimits { memory, cpus, pids, disk, changes, files };
        let landlock = match reader.u8()? {
            0 => Landlock::Required,
            1 => Landlock::BestEffort,
            2 => Landlock::AtMost(reader.u32()?),
            value => return Err(DecodeError::Unknown { what: "second wall", value }),
        };
        let (nested, leaves_nothing) = (truth(&mut reader)?, truth(&mut reader)?);
        reader.finish()?;
        Ok(Self { tree, identity, hostname, doors, limits, landlock, nested, leaves_nothing })
    }
}

fn write_place(writer: &mut Writer, place: &Place) {
    match place {
        Place::ReadOnly(host) => writer.u8(0).bytes(host.as_bytes()),
        Place::Writable(host) => writer.u8(1).bytes(host.as_bytes()),
        Place::Overlay { lower, changes } => {
            writer.u8(2).u32(lower.len() as u32);
            for layer in lower {
                writer.u8(layer.is_owned().into()).bytes(layer.host().as_bytes());
            }
            match changes {
                Changes::Kept(layers) => writer.u8(1).bytes(layers.as_bytes()),
                Changes::Private => writer.u8(0),
            }
        }
        Place::Private => writer.u8(3),
        Place::File { content, mode, keep } => {
            writer.u8(4).bytes(content).u32(*mode).u8((*keep).into())
        }
        Place::Symlink(to) => writer.u8(5).bytes(to.as_bytes()),
        Place::System(host) => writer.u8(6).bytes(host.as_bytes()),
    };
}

fn read_place(reader: &mut Reader<'_>) -> Result<Place, DecodeError> {
    Ok(match reader.u8()? {
        0 => Place::ReadOnly(host(reader)?),
        1 => Place::Writable(host(reader)?),
        2 => {
            let mut lower = Vec::new();
            for _ in 0..reader.u32()? {
                let layer = if truth(reader)? { Lower::Owned } else { Lower::Foreign };
                lower.push(layer(host(reader)?));
            }
            let changes =
                if truth(reader)? { Changes::Kept(host(reader)?) } else { Changes::Private };
            Place::Overlay { lower, changes }
        }
        3 => Place::Private,
        4 => Place::File { content: reader.bytes()?, mode: reader.u32()?, keep: truth(reader)? },
        5 => Place::Symlink(OsString::from_vec(reader.bytes()?)),
        6 => Place::System(host(reader)?),
        value => return Err(DecodeError::Unknown { what: "place", value }),
    })
}

impl Wire for Door {
    fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        write_door(&mut writer, self);
        writer.finish()
    }

    fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        let door = read_door(&mut reader)?;
        reader.finish()?;
        Ok(door)
    }
}

fn write_door(writer: &mut Writer, door: &Door) {
    match door {
        Door::Unix(path) => writer.u8(0).bytes(path.as_bytes()),
        Door::Listener(address) => writer.u8(1).bytes(address.to_string().as_bytes()),
        Door::Datagrams(port) => writer.u8(2).u32((*port).into()),
        Door::Outward(port) => writer.u8(3).u32((*port).into()),
    };
}

fn read_door(reader: &mut Reader<'_>) -> Result<Door, DecodeError> {
    let kind = reader.u8()?;
    let wrong = || DecodeError::Unknown { what: "address of a door", value: kind };
    let port = |number: u32| u16::try_from(number).map_err(|_| wrong());
    Ok(match kind {
        0 => Door::Unix(inside(reader)?),
        1 => Door::Listener(text(reader)?.parse::<SocketAddr>().map_err(|_| wrong())?),
        2 => Door::Datagrams(port(reader.u32()?)?),
        3 => Door::Outward(port(reader.u32()?)?),
        value => return Err(DecodeError::Unknown { what: "door", value }),
    })
}

fn host(reader: &mut Reader<'_>) -> Result<HostPath, DecodeError> {
    let wrong = |_| DecodeError::Unknown { what: "path of the host", value: 0 };
    HostPath::from_bytes(&reader.bytes()?).map_err(wrong)
}

fn inside(reader: &mut Reader<'_>) -> Result<InsidePath, DecodeError> {
    let wrong = |_| DecodeError::Unknown { what: "path inside", value: 0 };
    InsidePath::from_bytes(&reader.bytes()?).map_err(wrong)
}

fn text(reader: &mut Reader<'_>) -> Result<String, DecodeError> {
    let wrong = |_| DecodeError::Unknown { what: "text", value: 0 };
    String::from_utf8(reader.bytes()?).map_err(wrong)
}

fn truth(reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(DecodeError::Unknown { what: "truth", value }),
    }
}

#[cfg(test)]
mod tests;
