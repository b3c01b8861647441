//! Keys that a terminal takes for itself (termios(3), ISIG).

use rustix::termios::{LocalModes, SpecialCodeIndex, Termios};

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Interrupt,
    Quit,
    Suspend,
}

/// Those keys, as modes name them.
const KEYS: [(SpecialCodeIndex, Key); 3] = [
    (SpecialCodeIndex::VINTR, Key::Interrupt),
    (SpecialCodeIndex::VQUIT, Key::Quit),
    (SpecialCodeIndex::VSUSP, Key::Suspend),
];

/// Returns the first key that asks for a signal, and where it is.
pub(super) fn first(bytes: &[u8], modes: &Termios) -> Option<(usize, Key)> {
    const DISABLED: u8 = 0;
    if !modes.local_modes.contains(LocalModes::ISIG) {
        return None;
    }
    let meant = |byte: &u8| {
        let is = |(index, _): &&_| modes.special_codes[*index] == *byte && *byte != DISABLED;
        KEYS.iter().find(is).map(|(_, key)| *key)
    };
    bytes.iter().enumerate().find_map(|(at, byte)| Some((at, meant(byte)?)))
}

/// Returns whether one of these bytes is named as such a key, be it that the modes let none ask for a
/// signal.
pub(super) fn are_named(bytes: &[u8], modes: &Termios) -> bool {
    KEYS.iter().any(|(index, _)| bytes.contains(&modes.special_codes[*index]))
}

/// Returns the modes with such keys that nobody types: a byte that is in no text (UTF-8, RFC 3629).
pub(super) fn without(modes: &Termios) -> Termios {
    let mut without = modes.clone();
    KEYS.iter().for_each(|(index, _)| without.special_codes[*index] = 0xff);
    without
}

/// Names these keys in modes as others do.
pub(super) fn name_as(modes: &mut Termios, others: &Termios) {
    KEYS.iter().for_each(|(index, _)| modes.special_codes[*index] = others.special_codes[*index]);
}

/// Returns how a key is shown: control characters as `^C` where the terminal does so (ECHOCTL).
pub(super) fn echo(byte: u8, modes: &Termios) -> Vec<u8> {
    match byte {
        0..0x20 | 0x7f if modes.local_modes.contains(LocalModes::ECHOCTL) => {
            vec![b'^', byte ^ 0x40]
        }
        byte => vec![byte],
    }
}

#[cfg(test)]
mod tests {
    use rustix::pty::OpenptFlags;

    use super::*;

    fn modes() -> Termios {
        let terminal = rustix::pty::openpt(OpenptFlags::NOCTTY).unwrap();
        rustix::termios::tcgetattr(&terminal).unwrap()
    }

    #[test]
    fn the_first_key_that_asks_for_a_signal_is_found() {
        let modes = modes();
        assert_eq!(first(b"ab\x1a\x03", &modes), Some((2, Key::Suspend)));
        assert_eq!(first(b"\x03", &modes), Some((0, Key::Interrupt)));
        assert_eq!(first(b"\x1c", &modes), Some((0, Key::Quit)));
        assert_eq!(first(b"abc\x04\0", &modes), None);
    }

    #[test]
    fn a_program_that_reads_its_keys_itself_gets_them() {
        let mut raw = modes();
        raw.make_raw();
        assert_eq!(first(b"\x03\x1a", &raw), None);
    }

    #[test]
    fn a_key_that_is_switched_off_asks_for_nothing() {
        let mut modes = modes();
        modes.special_codes[SpecialCodeIndex::VINTR] = 0;
        assert_eq!(first(b"\0\x03", &modes), None);
        modes.special_codes[SpecialCodeIndex::VINTR] = b'x';
        assert_eq!(first(b"\x03x", &modes), Some((1, Key::Interrupt)));
    }

    #[test]
    fn a_key_is_shown_as_terminals_show_it() {
        let mut modes = modes();
        assert_eq!(echo(0x03, &modes), b"^C");
        assert_eq!(echo(0x7f, &modes), b"^?");
        assert_eq!(echo(b'x', &modes), b"x");
        modes.local_modes.remove(LocalModes::ECHOCTL);
        assert_eq!(echo(0x03, &modes), b"\x03");
    }
}
