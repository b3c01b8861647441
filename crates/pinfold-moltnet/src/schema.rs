//! JSON Schema, as far as the API's requests and tasks need it.
//!
//! A keyword that is not known here makes a schema invalid, so nothing that a schema asks for is ignored.

use std::fmt::Write as _;

use regex::Regex;

use pinfold_content::{Object, Text, Uuid, Value, times};

/// The most faults that one answer names.
const MOST_FAULTS: usize = 20;

/// A field that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The field's path, with slashes.
    pub(crate) field: String,
    /// What is wrong.
    pub(crate) message: String,
}

/// A schema, and what it refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schema<'a> {
    pub(crate) schema: &'a Value,
    /// The object whose members `$ref` names as `#/$defs/NAME`.
    pub(crate) definitions: &'a Value,
}

impl Schema<'_> {
    /// Returns what of a value is not as the schema has it. Paths begin with `field`.
    pub(crate) fn faults(&self, value: &Value, field: &str) -> Vec<Fault> {
        let mut check = Check { definitions: self.definitions, faults: Vec::new() };
        check.value(self.schema, value, &mut field.to_owned());
        check.faults
    }
}

struct Check<'a> {
    definitions: &'a Value,
    faults: Vec<Fault>,
}

impl Check<'_> {
    fn fault(&mut self, field: &str, message: impl Into<String>) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(Fault { field: field.to_owned(), message: message.into() });
        }
    }

    fn value(&mut self, schema: &Value, value: &Value, field: &mut String) {
        let Some(schema) = schema.as_object() else {
            return self.fault(field, "the schema is invalid");
        };
        for (keyword, wanted) in schema.members() {
            match keyword.escaped() {
                "$ref" => self.reference(wanted, value, field),
                "type" => self.kind(wanted, value, field),
                "const" if wanted != value => {
                    self.fault(field, format!("must be equal to constant {wanted}"));
                }
                "enum" => self.choice(wanted, value, field),
                "anyOf" => self.any_of(wanted, value, field),
                "minLength" | "maxLength" | "pattern" | "format" => {
                    self.text(keyword.escaped(), wanted, value, field);
                }
                "minimum" | "maximum" => self.number(keyword.escaped(), wanted, value, field),
                "minItems" | "maxItems" => self.count(keyword.escaped(), wanted, value, field),
                "items" => {
                    for (at, item) in value.as_array().unwrap_or_default().iter().enumerate() {
                        self.below(field, &at.to_string(), |check, field| {
                            check.value(wanted, item, field);
                        });
                    }
                }
                "required" => self.required(wanted, value, field),
                "properties" => self.properties(wanted, value, field),
                "additionalProperties" => self.closed(schema, wanted, value, field),
                "const" => {}
                other => self.fault(field, format!("the schema has an unknown keyword {other}")),
            }
        }
    }

    fn below(
        &mut self,
        field: &mut String,
        name: &str,
        check: impl FnOnce(&mut Self, &mut String),
    ) {
        let length = field.len();
        let _ = write!(field, "/{name}");
        check(self, field);
        field.truncate(length);
    }

    fn reference(&mut self, name: &Value, value: &Value, field: &mut String) {
        let name = name.as_text().unwrap_or_default();
        let schema = name.strip_prefix("#/$defs/").and_then(|name| self.definitions.get(name));
        match schema.cloned() {
            Some(schema) => self.value(&schema, value, field),
            None => self.fault(field, "the schema refers to nothing"),
        }
    }

    fn kind(&mut self, wanted: &Value, value: &Value, field: &str) {
        let wanted = wanted.as_text().unwrap_or_default();
        let fits = match (&*wanted, value) {
            ("integer", Value::Number(number)) => number.fract() == 0.0,
            ("number", Value::Number(number)) => number.is_finite(),
            ("string", Value::Text(_))
            | ("boolean", Value::Bool(_))
            | ("object", Value::Object(_))
            | ("array", Value::Array(_))
            | ("null", Value::Null) => true,
            _ => false,
        };
        if !fits {
            self.fault(field, format!("must be {wanted}"));
        }
    }

    fn choice(&mut self, wanted: &Value, value: &Value, field: &str) {
        if !wanted.as_array().unwrap_or_default().contains(value) {
            self.fault(field, "must be equal to one of the allowed values");
        }
    }

    fn any_of(&mut self, wanted: &Value, value: &Value, field: &str) {
        let fits = |schema: &Value| {
            let schema = Schema { schema, definitions: self.definitions };
            schema.faults(value, field).is_empty()
        };
        if !wanted.as_array().unwrap_or_default().iter().any(fits) {
            self.fault(field, "must match a schema in anyOf");
        }
    }

    fn text(&mut self, keyword: &str, wanted: &Value, value: &Value, field: &str) {
        let Some(text) = value.as_text() else { return };
        let length = || text.chars().count() as u64;
        let word = wanted.as_text().unwrap_or_default();
        let fault = match keyword {
            "minLength" if wanted.as_count().is_none_or(|least| length() < least) => {
                format!("must NOT have fewer than {wanted} characters")
            }
            "maxLength" if wanted.as_count().is_none_or(|most| length() > most) => {
                format!("must NOT have more than {wanted} characters")
            }
            "pattern" if !Regex::new(&word).is_ok_and(|pattern| pattern.is_match(&text)) => {
                format!("must match pattern {wanted}")
            }
            "format" if !has_format(&word, &text) => format!("must match format {wanted}"),
            _ => return,
        };
        self.fault(field, fault);
    }

    fn number(&mut self, keyword: &str, wanted: &Value, value: &Value, field: &str) {
        let (Value::Number(number), Value::Number(bound)) = (value, wanted) else { return };
        match keyword {
            "minimum" if number < bound => self.fault(field, format!("must be >= {wanted}")),
            "maximum" if number > bound => self.fault(field, format!("must be <= {wanted}")),
            _ => {}
        }
    }

    fn count(&mut self, keyword: &str, wanted: &Value, value: &Value, field: &str) {
        let Some(items) = value.as_array() else { return };
        let bound = wanted.as_count().unwrap_or_default();
        match keyword {
            "minItems" if (items.len() as u64) < bound => {
                self.fault(field, format!("must NOT have fewer than {wanted} items"));
            }
            "maxItems" if (items.len() as u64) > bound => {
                self.fault(field, format!("must NOT have more than {wanted} items"));
            }
            _ => {}
        }
    }

    fn required(&mut self, wanted: &Value, value: &Value, field: &mut String) {
        let Some(object) = value.as_object() else { return };
        for name in wanted.as_array().unwrap_or_default().iter().filter_map(Value::as_text) {
            if object.get(&name).is_none() {
                let message = format!("must have required property '{name}'");
                self.below(field, &name, |check, field| check.fault(field, message));
            }
        }
    }

    fn properties(&mut self, wanted: &Value, value: &Value, field: &mut String) {
        let (Some(object), Some(properties)) = (value.as_object(), wanted.as_object()) else {
            return;
        };
        for (name, schema) in properties.members() {
            if let Some(value) = object.get(name.escaped()) {
                self.below(field, name.escaped(), |check, field| {
                    check.value(schema, value, field);
                });
            }
        }
    }

    fn closed(&mut self, schema: &Object, wanted: &Value, value: &Value, field: &mut String) {
        let Some(object) = value.as_object() else { return };
        if *wanted != Value::Bool(false) {
            return self.fault(field, "the schema allows members without a name");
        }
        let known = schema.get("properties").and_then(Value::as_object);
        let is_known = |name: &Text| known.is_some_and(|known| known.get(name.escaped()).is_some());
        for (name, _) in object.members().filter(|(name, _)| !is_known(name)) {
            let name: String = name.to_str().chars().take(64).collect();
            self.below(field, &name, |check, field| {
                check.fault(field, "must NOT have additional properties");
            });
        }
    }
}

fn has_format(format: &str, text: &str) -> bool {
    match format {
        "uuid" => text.parse::<Uuid>().is_ok(),
        "date-time" => times::read(text).is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Schema;
    use pinfold_content::{Value, read};

    fn faults(schema: &str, value: &str) -> Vec<String> {
        let schema = read(schema).unwrap();
        let definitions = read(r##"{"deep":{"type":"array","items":{"$ref":"#/$defs/deep"}}}"##);
        let schema = Schema { schema: &schema, definitions: &definitions.unwrap() };
        let faults = schema.faults(&read(value).unwrap(), "input");
        faults.into_iter().map(|fault| fault.field + ": " + &fault.message).collect()
    }

    #[test]
    fn faults_name_their_fields() {
        let schema = r#"{"type":"object","required":["brief"],"additionalProperties":false,
            "properties":{"brief":{"type":"string","minLength":1},"tags":{"type":"array","maxItems":1,
            "items":{"type":"string"}}}}"#;
        assert_eq!(faults(schema, r#"{"brief":"x","tags":["a"]}"#), [""; 0]);
        assert_eq!(
            faults(schema, r#"{"other":1,"tags":["a",2]}"#),
            [
                "input/brief: must have required property 'brief'",
                "input/other: must NOT have additional properties",
                "input/tags: must NOT have more than 1 items",
                "input/tags/1: must be string",
            ]
        );
        assert_eq!(faults(schema, "[]"), ["input: must be object"]);
    }

    #[test]
    fn keyword_that_is_not_known_is_no_permission() {
        assert_eq!(faults(r#"{"maxProperties":1}"#, "{}").len(), 1);
        assert_eq!(faults(r#"{"additionalProperties":true}"#, "{}").len(), 1);
        assert_eq!(faults(r##"{"$ref":"#/$defs/none"}"##, "{}").len(), 1);
        assert_eq!(faults(r#"{"format":"none"}"#, "\"x\"").len(), 1);
    }

    #[test]
    fn lengths_are_of_characters() {
        assert_eq!(faults(r#"{"maxLength":2}"#, r#""é😀""#), [""; 0]);
        assert_eq!(faults(r#"{"maxLength":2}"#, r#""éé\n""#).len(), 1);
    }

    #[test]
    fn references_follow_the_value() {
        assert_eq!(faults(r##"{"$ref":"#/$defs/deep"}"##, "[[],[[]]]"), [""; 0]);
        assert_eq!(faults(r##"{"$ref":"#/$defs/deep"}"##, "[[1]]"), ["input/0/0: must be array"]);
    }

    #[test]
    fn faults_are_bounded() {
        let many: Value = (0..1_000_u32).map(Value::from).collect();
        assert_eq!(faults(r#"{"items":{"type":"null"}}"#, &many.to_string()).len(), 20);
    }
}
