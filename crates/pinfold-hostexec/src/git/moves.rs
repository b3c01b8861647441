//! The references that a push would move.

use pinfold_git::refs::is_object;

use pinfold_ask::display::word;

/// A reference that a push would move: of whom, from where, to where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) from: String,
    pub(super) object: String,
    pub(super) to: String,
    pub(super) old: String,
}

impl Move {
    /// Returns whether this is the id of no object.
    pub(super) fn is_none(object: &str) -> bool {
        object.bytes().all(|byte| byte == b'0')
    }

    pub(super) fn is_forced(&self, forced: &str) -> bool {
        forced.lines().any(|name| name == self.to)
    }

    pub(super) fn shown(&self, forced: &str) -> String {
        let short = |object: &str| object.chars().take(10).collect::<String>();
        let to = word(self.to.as_bytes());
        match (Self::is_none(&self.object), Self::is_none(&self.old)) {
            (true, _) => format!("deletes {to}, which is at {}", short(&self.old)),
            (false, true) => format!("makes {to} at {}", short(&self.object)),
            (false, false) => {
                let forced = if self.is_forced(forced) {
                    ", by force: what is there now is lost"
                } else {
                    ""
                };
                let (old, new) = (short(&self.old), short(&self.object));
                format!("moves {to} from {old} to {new}{forced}")
            }
        }
    }

    /// Returns the line that git gives a hook (githooks(5), "pre-push").
    pub(super) fn line(&self) -> String {
        format!("{} {} {} {}\n", self.from, self.object, self.to, self.old)
    }
}

/// Reads the moves that a hook noted, one a line.
pub(super) fn parse_moves(text: &str) -> Vec<Move> {
    let read = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [from, object, to, old] = words[..] else { return None };
        let is_valid = is_object(object) && is_object(old) && to.starts_with("refs/");
        let [from, object, to, old] = [from, object, to, old].map(str::to_owned);
        is_valid.then_some(Move { from, object, to, old })
    };
    text.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_read_as_git_tells_them_and_nothing_else_is_one() {
        let one = "1".repeat(40);
        let none = "0".repeat(40);
        let text = format!(
            "refs/heads/a {one} refs/heads/a {none}\nx\na b c d\n(delete) {none} refs/heads/b {one}\n"
        );
        let moves = parse_moves(&text);
        assert_eq!(moves.len(), 2);
        assert_eq!(moves[0].shown(""), "makes refs/heads/a at 1111111111");
        assert_eq!(moves[1].shown(""), "deletes refs/heads/b, which is at 1111111111");
    }

    #[test]
    fn forced_move_says_what_is_lost_and_no_name_breaks_its_line() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let text = format!("refs/heads/a {two} refs/heads/a {one}\n");
        let moves = parse_moves(&text);
        assert_eq!(moves[0].shown(""), "moves refs/heads/a from 1111111111 to 2222222222");
        assert!(
            moves[0].is_forced("refs/heads/b\nrefs/heads/a")
                && !moves[0].is_forced("refs/heads/ab")
        );
        assert!(moves[0].shown("refs/heads/a").ends_with("by force: what is there now is lost"));
        assert_eq!(moves[0].line(), text);
        let odd = parse_moves(&format!("x {two} refs/heads/\u{1b}[2Ja {one}\n"));
        assert!(!odd[0].shown("").contains('\u{1b}'));
    }
}
