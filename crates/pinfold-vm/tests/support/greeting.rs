//! For tests whose guest has no init.

use std::time::{Duration, Instant};

use pinfold_mux::{Multiplexer, Notice};
use pinfold_vm::{Machine as _, QemuMachine};

use crate::support::Failed;

/// Waits until the guest's init has answered.
pub(crate) fn greet(
    mut multiplexer: Multiplexer,
    machine: QemuMachine,
) -> Result<(QemuMachine, Multiplexer), Failed> {
    let start = Instant::now();
    loop {
        let left = Duration::from_secs(60).saturating_sub(start.elapsed());
        match multiplexer.turn(&[], Some(left)) {
            Ok((_, notices)) if notices.contains(&Notice::Ready) => break,
            Ok(_) if left.is_zero() => {
                return Err(format!("no answer in a minute\n{}", machine.end()).into());
            }
            Ok(_) => {}
            Err(error) => return Err(format!("{error}\n{}", machine.end()).into()),
        }
    }
    println!("init answers after {:?}", start.elapsed());
    Ok((machine, multiplexer))
}
