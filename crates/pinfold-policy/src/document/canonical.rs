//! A document in a form in which equal values are equal bytes, and others are not.

use super::{Document, Node, Value};

impl Document {
    /// Returns what the file says without one key of its own. Lines, comments and blanks do not count; the
    /// order of keys does.
    pub(crate) fn canonical_without(&self, key: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        match &self.root.value {
            Value::Table(members) => {
                for member in members.iter().filter(|member| member.key != key) {
                    text(&member.key, &mut bytes);
                    encode(&member.node, &mut bytes);
                }
            }
            _ => encode(&self.root, &mut bytes),
        }
        bytes
    }
}

/// Writes a kind, for lists and texts the length, and the content: no value is the beginning of another.
fn encode(node: &Node, bytes: &mut Vec<u8>) {
    match &node.value {
        Value::Null => bytes.push(b'n'),
        Value::Time => bytes.push(b'd'),
        Value::Bool(is) => bytes.extend([b'b', u8::from(*is)]),
        Value::Integer(number) => {
            bytes.push(b'i');
            bytes.extend(number.to_le_bytes());
        }
        Value::Float(number) => {
            bytes.push(b'f');
            bytes.extend(number.to_bits().to_le_bytes());
        }
        Value::Text(content) => text(content, bytes),
        Value::Array(nodes) => {
            bytes.push(b'a');
            bytes.extend((nodes.len() as u64).to_le_bytes());
            nodes.iter().for_each(|node| encode(node, bytes));
        }
        Value::Table(members) => {
            bytes.push(b't');
            bytes.extend((members.len() as u64).to_le_bytes());
            for member in members {
                text(&member.key, bytes);
                encode(&member.node, bytes);
            }
        }
    }
}

fn text(content: &str, bytes: &mut Vec<u8>) {
    bytes.push(b's');
    bytes.extend((content.len() as u64).to_le_bytes());
    bytes.extend(content.as_bytes());
}
