//! YAML 1.2 (core schema) to nodes, without what makes YAML treacherous: anchors and aliases, which grow without
//! bound; tags, which choose types; several documents; keys that are not text; and keys given twice.

use pinfold_policy::document::{Fault, Member, Node, Value};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

/// How deep lists and tables may nest: more than any real file, little enough for any stack.
const DEEPEST: usize = 16;

type Parsed<T> = Result<T, (u32, Fault)>;

/// Parses front matter. Errors have their line.
pub(super) fn parse(text: &str) -> Parsed<Node> {
    let mut reader = Reader { events: Parser::new_from_str(text) };
    loop {
        match reader.next()? {
            (Event::Nothing | Event::StreamStart | Event::DocumentStart(_), _) => {}
            // Nothing but comments.
            (Event::StreamEnd, _) => return Ok(Node { line: 1, value: Value::Table(Vec::new()) }),
            (event, span) => {
                let root = reader.node(event, span, 0)?;
                reader.end()?;
                // A document of one empty value is an empty table.
                let is_empty = root.value == Value::Null;
                let value = if is_empty { Value::Table(Vec::new()) } else { root.value };
                return Ok(Node { line: 1, value });
            }
        }
    }
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Parsed<(Event<'a>, Span)> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                Err((number(error.marker().line()), Fault::Syntax(error.info().to_owned())))
            }
            None => Err((1, Fault::Syntax("ends too early".to_owned()))),
        }
    }

    /// Checks that nothing follows.
    fn end(&mut self) -> Parsed<()> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentEnd | Event::Nothing, _) => {}
                (_, span) => return Err(fault(span, "holds more than one document")),
            }
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Parsed<Node> {
        if depth > DEEPEST {
            return Err(fault(span, "nested too deeply"));
        }
        let line = line(span);
        let value = match event {
            Event::Alias(_) => return Err(fault(span, "aliases are not supported")),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                return Err(fault(span, "anchors are not supported"));
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                return Err(fault(span, "tags are not supported"));
            }
            Event::Scalar(text, ScalarStyle::Plain, ..) => plain(&text),
            Event::Scalar(text, ..) => Value::Text(text.into_owned()),
            Event::SequenceStart(..) => self.list(depth)?,
            Event::MappingStart(..) => self.table(depth)?,
            _ => return Err(fault(span, "expected a value")),
        };
        Ok(Node { line, value })
    }

    fn list(&mut self, depth: usize) -> Parsed<Value> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::Array(items)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn table(&mut self, depth: usize) -> Parsed<Value> {
        let mut members: Vec<Member> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Value::Table(members));
            }
            let Node { line, value: Value::Text(key) } = self.node(event, span, depth + 1)? else {
                return Err(fault(span, "expected a key that is text"));
            };
            if members.iter().any(|member| member.key == key) {
                let text = format!("key \"{}\" appears twice; keep one", key.escape_default());
                return Err((line, Fault::Syntax(text)));
            }
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            members.push(Member { key, line, node });
        }
    }
}

/// Returns the value of a text without quotes (YAML 1.2.2, section 10.3.2). `yes`, `no`, `on` and `off` are text, and
/// so are numbers that are not decimal.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    if !is_number {
        return Value::Text(text.to_owned());
    }
    match (text.parse(), text.parse()) {
        (Ok(number), _) => Value::Integer(number),
        (Err(_), Ok(number)) => Value::Float(number),
        // A date, a version.
        (Err(_), Err(_)) => Value::Text(text.to_owned()),
    }
}

fn fault(span: Span, message: &str) -> (u32, Fault) {
    (line(span), Fault::Syntax(message.to_owned()))
}

fn line(span: Span) -> u32 {
    number(span.start.line())
}

fn number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}
