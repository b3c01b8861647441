//! Memory for bodies that are held until they are whole.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of bodies that the doors of one session hold at once. A session's own limit of memory does
/// not count them, because the supervisor holds them.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// Time for a body to arrive whole and for the memory it needs to be free.
const LIMIT: Duration = Duration::from_secs(60);

/// Bytes that are taken at once for a body of unknown length.
const STEP: usize = 256 * 1024;

/// The memory of one session's doors for bodies. Clones share it.
#[derive(Clone)]
pub(crate) struct HeldBytes {
    free: Arc<Semaphore>,
    limit: Duration,
}

/// A body that is whole, with its share of the memory.
pub(crate) struct HeldBody {
    pub(crate) bytes: Vec<u8>,
    _share: HeldShare,
}

/// A share of the memory, given back when it is dropped.
#[derive(Default)]
pub(crate) struct HeldShare(Option<OwnedSemaphorePermit>);

/// Why a body is not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HoldError {
    /// It is longer than allowed.
    #[error("its body is larger than {} MiB", .most / 1024 / 1024)]
    TooLarge {
        /// The longest allowed.
        most: usize,
    },
    /// It took too long.
    #[error(
        "its body did not arrive within {} seconds, or other requests hold the {} MiB that a session \
         has for bodies; send it again",
        LIMIT.as_secs(), MOST_HELD / 1024 / 1024
    )]
    TooSlow,
    /// The client broke off.
    #[error("its body broke off")]
    Broken,
}

impl Default for HeldBytes {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(MOST_HELD)), limit: LIMIT }
    }
}

impl HeldBytes {
    /// Holds a body of at most `most` bytes once it is whole.
    ///
    /// # Errors
    /// Returns [`HoldError`].
    pub(crate) async fn collect<B>(&self, body: B, most: usize) -> Result<HeldBody, HoldError>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let collected = tokio::time::timeout(self.limit, self.read(body, most)).await;
        collected.unwrap_or(Err(HoldError::TooSlow))
    }

    async fn read<B>(&self, mut body: B, most: usize) -> Result<HeldBody, HoldError>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let too_large = HoldError::TooLarge { most };
        let declared =
            body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        if declared.is_some_and(|length| length > most) {
            return Err(too_large);
        }
        let mut share = HeldShare::default();
        // Taken at once, so that two bodies cannot each wait for what the other one has.
        self.grow(&mut share, declared.unwrap_or(0)).await;
        let mut bytes = Vec::with_capacity(declared.unwrap_or(0));
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| HoldError::Broken)?.into_data() else { continue };
            let length = bytes.len() + data.len();
            if length > most {
                return Err(too_large);
            }
            if length > share.size() {
                self.grow(&mut share, STEP.max(data.len())).await;
            }
            bytes.extend_from_slice(&data);
        }
        Ok(HeldBody { bytes, _share: share })
    }

    async fn grow(&self, share: &mut HeldShare, by: usize) {
        let count = u32::try_from(by).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        if let Ok(more) = Arc::clone(&self.free).acquire_many_owned(count).await {
            share.add(more);
        }
    }

    /// Takes more memory if it is free now.
    pub(crate) fn try_grow(&self, share: &mut HeldShare, by: usize) -> bool {
        let more = u32::try_from(by)
            .ok()
            .and_then(|count| Arc::clone(&self.free).try_acquire_many_owned(count).ok());
        more.map(|more| share.add(more)).is_some()
    }
}

impl HeldShare {
    pub(crate) fn size(&self) -> usize {
        self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    fn add(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.0 {
            Some(permit) => permit.merge(more),
            None => self.0 = Some(more),
        }
    }
}

impl HeldBody {
    /// Returns the bytes, which keep their share of the memory until the last copy of them is gone.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for HeldBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};

    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap().block_on(work)
    }

    fn hasty() -> HeldBytes {
        HeldBytes { limit: Duration::from_millis(50), ..HeldBytes::default() }
    }

    #[test]
    fn bodies_share_one_budget_until_their_bytes_are_gone() {
        run(async {
            let held = hasty();
            let half = || Full::new(Bytes::from(vec![b'x'; MOST_HELD / 2]));
            let one = held.collect(half(), MOST_HELD).await.unwrap().into_bytes();
            let other = held.collect(half(), MOST_HELD).await.unwrap().into_bytes();
            let third = held.collect(half(), MOST_HELD).await;
            assert_eq!(third.err(), Some(HoldError::TooSlow));
            let part = other.slice(..10);
            drop((one, other));
            assert!(held.collect(half(), MOST_HELD).await.is_ok());
            assert_eq!(
                held.free.available_permits(),
                MOST_HELD / 2,
                "a part of it keeps the whole"
            );
            drop(part);
            assert_eq!(held.free.available_permits(), MOST_HELD);
        });
    }

    #[test]
    fn a_body_that_does_not_arrive_in_time_is_given_up() {
        run(async {
            let held = hasty();
            let never = StreamBody::new(futures_util::stream::pending::<
                Result<http_body::Frame<Bytes>, std::io::Error>,
            >());
            assert_eq!(held.collect(never, 100).await.err(), Some(HoldError::TooSlow));
            assert_eq!(held.free.available_permits(), MOST_HELD);
        });
    }

    #[test]
    fn a_body_of_unknown_length_is_counted_as_it_comes() {
        run(async {
            let held = hasty();
            let frames = || {
                let frame =
                    || Ok::<_, std::io::Error>(http_body::Frame::data(vec![0; 1000].into()));
                StreamBody::new(futures_util::stream::iter((0..1000).map(move |_| frame())))
            };
            let body = held.collect(frames(), 1_000_000).await.unwrap();
            assert!(body._share.size() >= 1_000_000 && body.bytes.len() == 1_000_000);
            let most = 999_999;
            let error = held.collect(frames(), most).await.err();
            assert_eq!(error, Some(HoldError::TooLarge { most }));
        });
    }
}
