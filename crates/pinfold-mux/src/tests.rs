mod attacks;
mod random;
mod sockets;

use crate::endpoint::{Endpoint, Event, NONCE, Side};
use crate::frame::Frame;

/// Two ends that have greeted.
fn pair() -> (Endpoint, Endpoint) {
    let (mut host, mut guest) = (Endpoint::new(Side::Host([7; NONCE])), Endpoint::new(Side::Guest));
    carry(&mut host, &mut guest);
    assert_eq!(host.next_event(), Some(Event::Ready));
    assert_eq!(guest.next_event(), Some(Event::Ready));
    (host, guest)
}

/// Carries everything over until nobody has more to say.
fn carry(one: &mut Endpoint, other: &mut Endpoint) {
    while !one.output().is_empty() || !other.output().is_empty() {
        pass(one, other);
        pass(other, one);
    }
}

fn pass(from: &mut Endpoint, to: &mut Endpoint) {
    let bytes = from.output().to_vec();
    from.written(bytes.len());
    to.receive(&bytes).unwrap();
}

fn encoded(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.encode(&mut bytes));
    bytes
}
