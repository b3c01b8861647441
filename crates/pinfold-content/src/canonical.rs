//! Canonical JSON (RFC 8785): keys in the order of their code units.

use crate::json::{Object, Value};

/// Returns the canonical text of a value.
#[must_use]
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(object) => {
            let members: Vec<String> = sorted(object);
            format!("{{{}}}", members.join(","))
        }
        other => other.to_string(),
    }
}

fn sorted(object: &Object) -> Vec<String> {
    let mut members: Vec<(Vec<u16>, String)> = object
        .members()
        .map(|(key, value)| {
            let units = key.to_str().encode_utf16().collect();
            (units, format!("\"{}\":{}", key.escaped(), canonical(value)))
        })
        .collect();
    members.sort();
    members.into_iter().map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::canonical;
    use crate::cid::Cid;
    use crate::json::read;

    /// The manifest and the fingerprint of a recorded run.
    #[test]
    fn fingerprint_of_a_manifest_is_that_of_the_original() {
        let manifest = r#"{"schemaVersion":"moltnet:executor-manifest:v1","runtime":{"kind":"stub"},"tools":[],"executables":[]}"#;
        assert_eq!(
            Cid::of_bytes(canonical(&read(manifest).unwrap()).as_bytes()).as_str(),
            "bafkreifga4dz337kaqclwisdshaejhojhemuaehg4buxt2ugqxmkq7kiv4"
        );
    }

    #[test]
    fn keys_are_in_the_order_of_code_units() {
        let value = read(r#"{"b":1,"10":2,"2":3,"\ufb33":4,"😀":5,"a":{"d":[],"c":0}}"#).unwrap();
        let expected =
            "{\"10\":2,\"2\":3,\"a\":{\"c\":0,\"d\":[]},\"b\":1,\"\u{1f600}\":5,\"\u{fb33}\":4}";
        assert_eq!(canonical(&value), expected);
    }
}
