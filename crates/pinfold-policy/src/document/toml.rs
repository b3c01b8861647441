//! TOML to nodes.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Fault, Member, Node, Value};

/// Where each line begins, so that a value's line is found by binary search.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(breaks.map(|(at, _)| at).collect())
    }

    fn at(&self, offset: usize) -> u32 {
        let before = self.0.partition_point(|line_break| *line_break < offset);
        u32::try_from(before).map_or(u32::MAX, |before| before.saturating_add(1))
    }
}

/// Parses a whole file. The `toml` crate bounds the depth of nesting.
pub(super) fn parse(text: &str) -> Result<Node, (u32, Fault)> {
    let lines = Lines::of(text);
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| lines.at(span.start));
        (line, Fault::Syntax(error.message().replace('\n', "; ")))
    })?;
    Ok(Node { line: 1, value: self::table(table.into_inner(), &lines) })
}

fn table(table: DeTable<'_>, lines: &Lines) -> Value {
    let mut members: Vec<Member> = table
        .into_iter()
        .map(|(key, value)| Member {
            line: lines.at(key.span().start),
            key: key.into_inner().into_owned(),
            node: node(value, lines),
        })
        .collect();
    members.sort_by_key(|member| member.line);
    Value::Table(members)
}

fn node(value: Spanned<DeValue<'_>>, lines: &Lines) -> Node {
    let line = lines.at(value.span().start);
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            // Beyond 64 bits: a number, but none that any key accepts.
            Err(_) => Value::Float(f64::INFINITY),
        },
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(truth) => Value::Bool(truth),
        DeValue::Datetime(_) => Value::Time,
        DeValue::Array(items) => {
            Value::Array(items.into_iter().map(|item| node(item, lines)).collect())
        }
        DeValue::Table(members) => table(members, lines),
    };
    Node { line, value }
}
