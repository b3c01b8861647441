//! Values as `JSON.stringify` writes them, without spaces.

use std::fmt::{self, Display, Formatter};

use super::Value;

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Number(number) => number_to(*number, f),
            Self::Text(text) => write!(f, "\"{}\"", text.escaped()),
            Self::Array(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { "," })?;
                    item.fmt(f)?;
                }
                f.write_str("]")
            }
            Self::Object(object) => {
                f.write_str("{")?;
                for (at, (key, value)) in object.members().enumerate() {
                    f.write_str(if at == 0 { "" } else { "," })?;
                    write!(f, "\"{}\":{value}", key.escaped())?;
                }
                f.write_str("}")
            }
        }
    }
}

impl Value {
    /// Returns the text that `JSON.stringify` writes with an indent of two spaces.
    #[must_use]
    pub fn pretty(&self) -> String {
        let mut text = String::new();
        self.indented("\n", &mut text);
        text
    }

    /// Appends the text. `line` ends a line and begins the next one as far as this value is indented.
    fn indented(&self, line: &str, text: &mut String) {
        let inner = format!("{line}  ");
        let mut list =
            |open: char, close: char, items: &mut dyn Iterator<Item = (String, &Self)>| {
                text.push(open);
                let mut is_empty = true;
                for (key, value) in items {
                    text.push_str(if is_empty { "" } else { "," });
                    text.push_str(&inner);
                    text.push_str(&key);
                    value.indented(&inner, text);
                    is_empty = false;
                }
                text.push_str(if is_empty { "" } else { line });
                text.push(close);
            };
        match self {
            Self::Array(items) => {
                list('[', ']', &mut items.iter().map(|item| (String::new(), item)));
            }
            Self::Object(object) => {
                let mut members = object
                    .members()
                    .map(|(key, value)| (format!("\"{}\": ", key.escaped()), value));
                list('{', '}', &mut members);
            }
            other => text.push_str(&other.to_string()),
        }
    }
}

/// Writes a number as ECMA-262 has it (`Number::toString`).
fn number_to(number: f64, f: &mut Formatter<'_>) -> fmt::Result {
    if !number.is_finite() {
        return f.write_str("null");
    }
    if number == 0.0 {
        return f.write_str("0");
    }
    if number < 0.0 {
        f.write_str("-")?;
    }
    let (digits, point) = shortest(number.abs());
    let count = digits.len() as i32;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    match point {
        _ if count <= point && point <= 21 => write!(f, "{digits}{}", zeros(point - count)),
        1..=21 => {
            let (whole, rest) = digits.split_at(point as usize);
            write!(f, "{whole}.{rest}")
        }
        -5..=0 => write!(f, "0.{}{digits}", zeros(-point)),
        _ => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            write!(f, "{first}{dot}{rest}e{:+}", point - 1)
        }
    }
}

/// Returns the fewest digits that stand for this number alone, and where its point is among them.
fn shortest(number: f64) -> (String, i32) {
    /// No number with fewer digits is in the middle of two that both stand for it.
    const LEAST: usize = 15;
    /// More digits than any number has.
    const ALL: usize = 780;
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = digits.replace('.', "");
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    if digits.len() < LEAST || digits.ends_with(['0', '2', '4', '6', '8']) {
        return (digits, point);
    }
    // Of two that are equally near, JavaScript takes the even one, and Rust the larger one.
    let exact = format!("{number:.ALL$e}").replace('.', "");
    let (below, rest) = exact.split_at(digits.len());
    let is_middle = rest.split('e').next().is_some_and(|rest| rest.trim_end_matches('0') == "5");
    let is_even = below.ends_with(['0', '2', '4', '6', '8']);
    let same = format!("0.{below}e{point}").parse() == Ok(number);
    let digits = if is_middle && is_even && same { below.to_owned() } else { digits };
    (digits, point)
}
