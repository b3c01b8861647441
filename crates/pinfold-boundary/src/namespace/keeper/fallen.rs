//! What the keeper reports, as four bytes each.

/// What the keeper says: of one mask its number in the list, and what happened to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallen {
    /// None has: all masks are watched from now on.
    None,
    /// It was put back on what the host had moved to the name.
    PutBack(u32),
    /// It was put back on what the sandbox may have put there.
    Doubtful(u32),
    /// It could not be put back: the sandbox has to end.
    Lost(u32),
    /// The session is over, and nothing more follows.
    Over,
}

impl Fallen {
    /// Returns it as it is written to the supervisor: the number with its highest bit for what is lost, the
    /// next one for what is doubtful.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 4] {
        match self {
            Self::PutBack(number) => number,
            Self::Doubtful(number) => number | DOUBTFUL,
            Self::Lost(number) => number | LOST,
            Self::None => READY,
            Self::Over => OVER,
        }
        .to_le_bytes()
    }

    /// Returns what was written.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 4]) -> Self {
        match u32::from_le_bytes(bytes) {
            READY => Self::None,
            OVER => Self::Over,
            number if number & LOST != 0 => Self::Lost(number & !LOST),
            number if number & DOUBTFUL != 0 => Self::Doubtful(number & !DOUBTFUL),
            number => Self::PutBack(number),
        }
    }
}

const LOST: u32 = 1 << 31;
const DOUBTFUL: u32 = 1 << 30;
const READY: u32 = u32::MAX;
const OVER: u32 = READY - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_survives_encoding() {
        let numbered =
            [0, 7].map(|it| [Fallen::PutBack(it), Fallen::Doubtful(it), Fallen::Lost(it)]);
        for said in numbered.into_iter().flatten().chain([Fallen::None, Fallen::Over]) {
            assert_eq!(Fallen::from_bytes(said.to_bytes()), said);
        }
    }
}
