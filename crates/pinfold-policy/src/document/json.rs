//! JSON (RFC 8259) to nodes.
//!
//! `serde_json` decodes the strings and numbers; the structure is read here, because a value's
//! line and a key given twice are lost in its trees.

use super::{Fault, Member, Node, Value};

/// How deep lists and tables may nest: more than any real file, little enough for any stack.
const MAX_DEPTH: usize = 64;

type Parsed<T> = Result<T, (u32, Fault)>;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

/// Parses a whole file.
pub(super) fn parse(text: &str) -> Parsed<Node> {
    let mut parser = Parser { text, at: 0, line: 1 };
    let root = parser.value(0)?;
    match parser.peek() {
        None => Ok(root),
        Some(_) => Err(parser.syntax("expected the end of the file")),
    }
}

impl<'a> Parser<'a> {
    fn syntax(&self, message: &str) -> (u32, Fault) {
        (self.line, Fault::Syntax(message.to_owned()))
    }

    /// Returns the next byte that is not white space, left in place.
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.as_bytes().get(self.at) {
            match byte {
                b'\n' => self.line = self.line.saturating_add(1),
                b' ' | b'\t' | b'\r' => {}
                other => return Some(*other),
            }
            self.at += 1;
        }
        None
    }

    /// Takes the next byte if it is `wanted`.
    fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Parsed<Node> {
        if depth > MAX_DEPTH {
            return Err(self.syntax("nested too deeply"));
        }
        let Some(first) = self.peek() else { return Err(self.syntax("expected a value")) };
        let line = self.line;
        let value = match first {
            b'{' => self.table(depth)?,
            b'[' => self.array(depth)?,
            b'"' => Value::Text(self.string()?),
            b'-' | b'0'..=b'9' => self.number()?,
            _ => self.word()?,
        };
        Ok(Node { line, value })
    }

    fn table(&mut self, depth: usize) -> Parsed<Value> {
        self.at += 1;
        let mut members: Vec<Member> = Vec::new();
        if self.take(b'}') {
            return Ok(Value::Table(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.syntax("expected a key in double quotes"));
            }
            let line = self.line;
            let key = self.string()?;
            if members.iter().any(|member| member.key == key) {
                let text = format!("key \"{}\" appears twice; keep one", key.escape_default());
                return Err((line, Fault::Syntax(text)));
            }
            if !self.take(b':') {
                return Err(self.syntax("expected `:` after the key"));
            }
            let node = self.value(depth + 1)?;
            members.push(Member { key, line, node });
            if self.take(b'}') {
                return Ok(Value::Table(members));
            }
            if !self.take(b',') {
                return Err(self.syntax("expected `,` or `}`"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Parsed<Value> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Ok(Value::Array(items));
            }
            if !self.take(b',') {
                return Err(self.syntax("expected `,` or `]`"));
            }
        }
    }

    fn string(&mut self) -> Parsed<String> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut end = start + 1;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
                None => return Err(self.syntax("a string does not end")),
            }
        }
        self.at = end + 1;
        self.token(start).and_then(|token| {
            serde_json::from_str(token).map_err(|_| self.syntax("not a JSON string"))
        })
    }

    fn number(&mut self) -> Parsed<Value> {
        let token = self.run(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        if let Ok(number) = serde_json::from_str::<i64>(token) {
            return Ok(Value::Integer(number));
        }
        match serde_json::from_str::<f64>(token) {
            Ok(number) => Ok(Value::Float(number)),
            Err(_) => Err(self.syntax("not a JSON number")),
        }
    }

    fn word(&mut self) -> Parsed<Value> {
        match self.run(|byte| byte.is_ascii_alphabetic()) {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            "null" => Ok(Value::Null),
            _ => Err(self.syntax("expected a JSON value")),
        }
    }

    /// Takes the ASCII bytes that `belongs` accepts.
    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        let rest = self.text.as_bytes().get(start..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| belongs(**byte)).count();
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Returns the text from `start` to the present place.
    fn token(&self, start: usize) -> Parsed<&'a str> {
        self.text.get(start..self.at).ok_or_else(|| self.syntax("a string does not end"))
    }
}
