//! The network between workers and the queue: it loses, delays, repeats and reorders.

use std::time::Duration;

use crate::events::Time;

/// What the network does, as chances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub(crate) loss: f64,
    pub(crate) repetition: f64,
    pub(crate) slow: f64,
    /// How long a slow message may take.
    pub(crate) longest: Duration,
}

impl Network {
    /// Returns when copies of a message that is sent now arrive; none if it is lost.
    pub(crate) fn send(&self, now: Time, random: &mut fastrand::Rng) -> Vec<Time> {
        let copies = 1 + usize::from(random.f64() < self.repetition);
        let mut arrivals = Vec::new();
        for _ in 0..copies {
            if random.f64() >= self.loss {
                arrivals.push(now + self.delay(random));
            }
        }
        arrivals
    }

    fn delay(&self, random: &mut fastrand::Rng) -> Duration {
        let is_slow = random.f64() < self.slow;
        let most = if is_slow { self.longest } else { Duration::from_millis(60) };
        most.mul_f64(random.f64())
    }
}
