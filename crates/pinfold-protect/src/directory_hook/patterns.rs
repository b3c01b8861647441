//! Names in a shell's settings that are put together of parts, as patterns.

/// Returns the lines in which a shell makes one name of several parts, once more: without quotes, with lines that go on joined,
/// and with `*` or `?` for what is not known.
pub(super) fn patterns(text: &str) -> String {
    let joined = text.replace("\\\n", "");
    let is_joined = joined.len() < text.len();
    let all = joined.lines().map(|line| (line, pattern(line)));
    let put_together = all.filter(|(line, pattern)| is_joined || line != pattern);
    put_together.map(|(_, pattern)| pattern + "\n").collect()
}

fn pattern(line: &str) -> String {
    let mut pattern = String::with_capacity(line.len());
    let mut rest = line;
    // In `$'…'` escapes stand for characters.
    let mut is_ansi = false;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        let is_inside = pattern.ends_with(|it: char| it.is_alphanumeric() || "/._-*?".contains(it));
        rest = match first {
            '"' | '\'' => {
                is_ansi &= first != '\'';
                after
            }
            '$' if after.starts_with('\'') => {
                is_ansi = true;
                &after[1..]
            }
            '\\' if is_ansi => {
                pattern.push('?');
                behind_escape(after)
            }
            '\\' => {
                let escaped = after.chars().next();
                pattern.extend(escaped.map(|it| if it == ' ' { '?' } else { it }));
                &after[escaped.map_or(0, char::len_utf8)..]
            }
            '[' | '{' => {
                let (end, stands) = if first == '[' { (']', '?') } else { ('}', '*') };
                let several = enclosed(after, end).filter(|it| first == '[' || it.0.contains(','));
                pattern.push(several.map_or(first, |_| stands));
                several.map_or(after, |(_, rest)| rest)
            }
            '$' if is_inside => {
                pattern.push('*');
                behind_expansion(after)
            }
            // direnv loads settings in their directory.
            '$' => {
                let is_here = ["PWD/", "{PWD}/"].iter().find_map(|here| after.strip_prefix(here));
                if is_here.is_none() {
                    pattern.push('$');
                }
                is_here.unwrap_or(after)
            }
            other => {
                pattern.push(other);
                after
            }
        };
    }
    if line.contains("printf") { pattern.replace("%s", "*").replace("%d", "*") } else { pattern }
}

/// Returns what follows an escape of `$'…'`: a character, or up to eight digits of its code.
fn behind_escape(text: &str) -> &str {
    let digits = text.strip_prefix(['x', 'u', 'U']);
    let (code, least) = digits.map_or((text, 1), |code| (code, 0));
    let length =
        code.chars().take(8).take_while(char::is_ascii_hexdigit).count().min(match digits {
            None => 3,
            Some(_) if text.starts_with('x') => 2,
            Some(_) if text.starts_with('u') => 4,
            Some(_) => 8,
        });
    let skipped: usize = code.chars().take(length.max(least)).map(char::len_utf8).sum();
    &code[skipped..]
}

/// Returns what comes before a bracket and what behind it, if no blank is between. Names are short, so that many brackets cost
/// little.
fn enclosed(text: &str, end: char) -> Option<(&str, &str)> {
    const LONGEST: usize = 64;
    let ends = |it: char| it == end || it.is_whitespace() || "[{".contains(it);
    let at = text.char_indices().take(LONGEST).find(|(_, it)| ends(*it));
    let (at, _) = at.filter(|(at, found)| *found == end && *at > 0)?;
    Some((&text[..at], &text[at + 1..]))
}

/// Returns what follows a variable or a command that stands for its output.
fn behind_expansion(text: &str) -> &str {
    let end = match text.chars().next() {
        Some('{') => text.split_once('}'),
        Some('(') => text.split_once(')'),
        _ => {
            return text.trim_start_matches(|it: char| it.is_alphanumeric() || it == '_');
        }
    };
    end.map_or("", |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::patterns;

    #[test]
    fn name_of_several_parts_is_one_pattern() {
        let cases = [
            (r#"source "lib"'/x'".sh""#, "source lib/x.sh\n"),
            ("source lib/\\\nx.sh", "source lib/x.sh\n"),
            (r"source lib/my\ x\.sh", "source lib/my?x.sh\n"),
            ("for f in conf/[0-9]*.sh", "for f in conf/?*.sh\n"),
            ("source lib/{x,y}.sh", "source lib/*.sh\n"),
            (". lib/$f; . \"$PWD/lib/${g}.sh\"", ". lib/*; . lib/*.sh\n"),
            (". lib/$(uname -s).sh", ". lib/*.sh\n"),
            ("[ -f x ] && . \"$f\"", "[ -f x ] && . $f\n"),
            (r"source $'lib/\x78.sh'", "source lib/?.sh\n"),
            (r"source $'lib/\170.s\u0068' \x", "source lib/?.s? x\n"),
            ("source $(printf 'lib/%s.sh' x)", "source $(printf lib/*.sh x)\n"),
            ("source $'\\", "source ?\n"),
            ("source lib/x.sh", ""),
            ("a[", ""),
            ("\\", "\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(patterns(text), expected, "{text}");
        }
    }
}
