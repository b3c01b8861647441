//! Lines on a screen that pinfold has taken for itself. Nothing of them scrolls.

/// Returns the bytes that clear the screen and draw lines from its top, as many as there are rows.
pub fn at_the_top(lines: &[String], rows: usize) -> String {
    let mut text = String::from("\x1b[2J");
    for (row, line) in lines.iter().take(rows).enumerate() {
        text.push_str(&format!("\x1b[{};1H{line}", row + 1));
    }
    text
}

/// Breaks a line where the window ends. Characters outside ASCII may be two columns wide.
pub fn wrap(line: &str, indent: &str, columns: usize, into: &mut Vec<String>) {
    let room = columns.saturating_sub(indent.len()).max(2);
    let (mut part, mut width) = (String::new(), 0);
    for character in line.chars() {
        let wide = if character.is_ascii() { 1 } else { 2 };
        if width + wide > room {
            into.push(format!("{indent}{part}"));
            (part, width) = (String::new(), 0);
        }
        part.push(character);
        width += wide;
    }
    into.push(format!("{indent}{part}"));
}
