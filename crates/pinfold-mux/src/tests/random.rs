//! Two honest ends, an unreliable reader at each, and a channel that cuts anywhere: the same seeds each time.

use std::collections::BTreeMap;

use super::pair;
use crate::endpoint::{Endpoint, Event};
use crate::frame::StreamId;
use crate::{MOST_HELD, STREAMS};

/// xorshift* (Vigna, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
    }
}

/// One direction of a stream: what went in, what came out, and how it ended.
#[derive(Default)]
struct Direction {
    sent: u32,
    got: u32,
    is_finished: bool,
    is_aborted: bool,
    is_stopped: bool,
}

/// Returns the byte of a stream at a position.
fn byte(id: StreamId, at: u32) -> u8 {
    (id.0.wrapping_mul(31).wrapping_add(at.wrapping_mul(7)) >> 2) as u8
}

struct World {
    random: Random,
    ends: [Endpoint; 2],
    /// Bytes under way to each end.
    wires: [Vec<u8>; 2],
    /// By the stream, and by the end that sends.
    directions: BTreeMap<(StreamId, usize), Direction>,
    open: [Vec<StreamId>; 2],
    closed: usize,
}

impl World {
    fn step(&mut self, may_open: bool) {
        let end = self.random.below(2);
        match self.random.below(12) {
            0 if may_open => self.open(end),
            1..=3 => self.send(end),
            4..=6 => self.read(end),
            7 => self.finish(end),
            8 => self.give_up(end),
            _ => self.carry(end),
        }
        self.ends.iter().for_each(|end| assert!(end.held_in_all() <= MOST_HELD));
    }

    fn some(&mut self, end: usize) -> Option<StreamId> {
        let index = self.random.below(self.open[end].len());
        self.open[end].get(index).copied()
    }

    fn open(&mut self, end: usize) {
        let label = vec![b'l'; self.random.below(200)];
        if let Ok(id) = self.ends[end].open(&label) {
            self.open[end].push(id);
            self.directions.insert((id, 0), Direction::default());
            self.directions.insert((id, 1), Direction::default());
        }
    }

    fn send(&mut self, end: usize) {
        let Some(id) = self.some(end) else { return };
        let length = self.random.below(20_000) as u32;
        let direction = self.directions.get_mut(&(id, end)).unwrap();
        let bytes: Vec<u8> =
            (direction.sent..direction.sent + length).map(|at| byte(id, at)).collect();
        let went = self.ends[end].send(id, &bytes);
        assert!(went == 0 || !(direction.is_finished || direction.is_aborted));
        direction.sent += went as u32;
    }

    fn read(&mut self, end: usize) {
        let Some(id) = self.some(end) else { return };
        let (first, second) = self.ends[end].held(id);
        let held: Vec<u8> = first.iter().chain(second).copied().collect();
        let count = self.random.below(held.len() + 1);
        self.deliver(end, id, &held[..count]);
    }

    fn deliver(&mut self, end: usize, id: StreamId, bytes: &[u8]) {
        let direction = self.directions.get_mut(&(id, 1 - end)).unwrap();
        for got in bytes {
            assert_eq!(*got, byte(id, direction.got));
            direction.got += 1;
        }
        self.ends[end].take(id, bytes.len());
    }

    fn finish(&mut self, end: usize) {
        let Some(id) = self.some(end) else { return };
        self.ends[end].finish(id);
        self.directions.get_mut(&(id, end)).unwrap().is_finished = true;
    }

    /// Ends a direction before its time, seldom.
    fn give_up(&mut self, end: usize) {
        let (Some(id), 0) = (self.some(end), self.random.below(8)) else { return };
        if self.random.below(2) == 0 {
            self.ends[end].abort(id);
            self.directions.get_mut(&(id, end)).unwrap().is_aborted = true;
        } else {
            self.ends[end].stop(id);
            self.directions.get_mut(&(id, 1 - end)).unwrap().is_stopped = true;
        }
    }

    fn carry(&mut self, end: usize) {
        let output = self.ends[end].output();
        let count = self.random.below(output.len() + 1);
        self.wires[1 - end].extend_from_slice(&output[..count]);
        self.ends[end].written(count);
        let count = self.random.below(self.wires[end].len() + 1);
        let bytes: Vec<u8> = self.wires[end].drain(..count).collect();
        self.ends[end].receive(&bytes).unwrap();
        while let Some(event) = self.ends[end].next_event() {
            match event {
                Event::Opened { id, label } => {
                    assert!(label.iter().all(|byte| *byte == b'l'));
                    self.open[end].push(id);
                }
                Event::Closed(id) => {
                    self.open[end].retain(|open| *open != id);
                    self.closed += 1;
                }
                Event::Ready | Event::Received(_) | Event::Stopped(_) => {}
            }
        }
    }

    /// Reads and finishes everything.
    fn settle(&mut self) {
        for _ in 0..100 {
            for end in [0, 1] {
                for id in self.open[end].clone() {
                    self.ends[end].finish(id);
                    let (first, second) = self.ends[end].held(id);
                    let held: Vec<u8> = first.iter().chain(second).copied().collect();
                    self.deliver(end, id, &held);
                }
                for _ in 0..4 {
                    self.carry(0);
                    self.carry(1);
                }
            }
        }
    }
}

#[test]
fn every_stream_delivers_what_was_sent_and_ends_whatever_the_order() {
    for seed in 1..=6 {
        let (host, guest) = pair();
        let mut world = World {
            random: Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed)),
            ends: [host, guest],
            wires: [Vec::new(), Vec::new()],
            directions: BTreeMap::new(),
            open: [Vec::new(), Vec::new()],
            closed: 0,
        };
        (0..2000).for_each(|_| world.step(true));
        world.settle();
        let streams = world.directions.len() / 2;
        assert!(world.open.iter().all(Vec::is_empty), "seed {seed}: {:?}", world.open);
        assert_eq!(world.closed, 2 * streams, "seed {seed}");
        for ((id, _), direction) in &world.directions {
            let is_cut = direction.is_aborted || direction.is_stopped;
            assert!(is_cut || direction.got == direction.sent, "seed {seed}, {id:?}");
        }
        // Nothing is left, and every opening has come back.
        for end in [0, 1] {
            assert_eq!(world.ends[end].held_in_all(), 0, "seed {seed}");
            assert!((0..STREAMS).all(|_| world.ends[end].open(b"").is_ok()), "seed {seed}");
        }
    }
}
