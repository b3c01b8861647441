//! How a program has the keys of one screen reported: kitty's stack of flags
//! (sw.kovidgoyal.net/kitty/keyboard-protocol).

/// Keyboards that are remembered. Terminals have room for 8 to 16384, and forget the oldest.
const MOST: usize = 16;

/// The flags of one screen.
#[derive(Debug, Default)]
pub(super) struct Keyboards {
    /// What is below the stack.
    base: u16,
    stack: Vec<u16>,
    /// How many a terminal may still have that forgets none.
    pushed: u16,
    is_base_set: bool,
}

impl Keyboards {
    /// Puts flags on the stack.
    pub(super) fn push(&mut self, flags: u16) {
        if self.stack.len() == MOST {
            self.stack.remove(0);
        }
        self.stack.push(flags);
        self.pushed = self.pushed.saturating_add(1);
    }

    /// Takes flags off the stack. Unless it is sure that the terminal does so, too, they are taken off again at the end.
    pub(super) fn pop(&mut self, count: u16, is_sure: bool) {
        if usize::from(count) > self.stack.len() {
            self.base = 0;
        }
        self.stack.truncate(self.stack.len().saturating_sub(count.into()));
        if is_sure {
            self.pushed = self.pushed.saturating_sub(count);
        }
    }

    /// Changes the flags that hold: to these, by adding these, or by taking these away.
    pub(super) fn set(&mut self, flags: u16, how: u16) {
        self.is_base_set |= self.stack.is_empty();
        let top = self.stack.last_mut().unwrap_or(&mut self.base);
        match how {
            2 => *top |= flags,
            3 => *top &= !flags,
            _ => *top = flags,
        }
    }

    /// Returns what sets the same in a terminal that has heard nothing.
    pub(super) fn enter(&self) -> String {
        let base = Some(self.base).filter(|base| *base > 0).map(|flags| format!("\x1b[={flags}u"));
        base.into_iter().chain(self.stack.iter().map(|flags| format!("\x1b[>{flags}u"))).collect()
    }

    /// Returns what takes all of it back.
    pub(super) fn leave(&self) -> String {
        let mut reset = String::new();
        if self.pushed > 0 {
            reset.push_str(&format!("\x1b[<{}u", self.pushed));
        }
        if self.is_base_set {
            reset.push_str("\x1b[=0u");
        }
        reset
    }
}
