use std::os::fd::AsFd;

use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::*;

/// Writes a byte if it is ever dropped.
struct Unwound(OwnedFd);

impl Drop for Unwound {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.0, b"x");
    }
}

#[test]
fn a_panic_ends_a_cloned_child_at_once() {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    match clone_into(0, None).unwrap() {
        Side::Child => {
            let _unwound = Unwound(writer);
            panic!("on purpose");
        }
        Side::Parent { child, .. } => {
            drop(writer);
            let ended = waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED).unwrap();
            assert_eq!(ended.unwrap().exit_status(), Some(pinfold_init::PANICKED));
            assert_eq!(rustix::io::read(&reader, &mut [0_u8; 1]), Ok(0), "it has unwound");
        }
    }
}
