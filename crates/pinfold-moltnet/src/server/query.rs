//! The query of a request: names with values, of which those that nobody asks for are ignored.

use crate::problem::Problem;

/// The most values that are looked at.
const MOST: usize = 256;

/// A query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query, or a form that is encoded like one.
    pub(crate) fn read(text: &str) -> Result<Self, Problem> {
        let pairs = text
            .split('&')
            .filter(|pair| !pair.is_empty())
            .take(MOST + 1)
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Ok((decode(name)?, decode(value)?))
            })
            .collect::<Result<Vec<_>, Problem>>()?;
        if pairs.len() > MOST {
            Err(Problem::field("query", "has too many values"))
        } else {
            Ok(Self(pairs))
        }
    }

    /// Returns the last value of a name.
    pub(crate) fn one(&self, name: &str) -> Option<&str> {
        self.all(name).last()
    }

    /// Returns all values of a name.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a name that may have one alone. Others who read the request could go by another one.
    pub(crate) fn only(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut all = self.all(name);
        let first = all.next();
        if all.next().is_some() {
            return Err(Problem::field(&format!("query/{name}"), "is given more than once"));
        }
        Ok(first)
    }

    /// Returns a value of a type, of a name that may have one alone.
    pub(crate) fn parsed<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(text) = self.only(name)? else { return Ok(None) };
        let invalid = || Problem::field(&format!("query/{name}"), "is invalid");
        read(text).map(Some).ok_or_else(invalid)
    }

    /// Returns a number between two others.
    pub(crate) fn number(&self, name: &str, least: u32, most: u32) -> Result<Option<u32>, Problem> {
        self.parsed(name, |text| number(text).filter(|number| (least..=most).contains(number)))
    }
}

/// Reads a number, which has one text.
pub(crate) fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number: &u32| number.to_string() == text)
}

/// Decodes what is percent-encoded (RFC 3986); a plus is a space, as in forms.
pub(crate) fn decode(text: &str) -> Result<String, Problem> {
    let invalid = || Problem::field("query", "is not encoded correctly");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
                let (high, low) = (digit(), digit());
                let byte = high.zip(low).map(|(high, low)| (high << 4 | low) as u8);
                byte.ok_or_else(invalid)?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::Query;

    #[test]
    fn values_are_decoded_and_names_repeat() {
        let query = Query::read("tags=a+b&tags=c%2Bd&limit=10&x&=y").unwrap();
        assert_eq!(query.all("tags").collect::<Vec<_>>(), ["a b", "c+d"]);
        assert_eq!(query.number("limit", 1, 100), Ok(Some(10)));
        assert!(query.number("limit", 11, 100).is_err());
        assert_eq!(query.one("x"), Some(""));
        assert_eq!(query.number("none", 1, 2), Ok(None));
        assert!(query.parsed("tags", |text| Some(text.to_owned())).is_err());
        let query = Query::read("a=01&b=%2B1&c=1&c=1&d=-0&e=").unwrap();
        for name in ["a", "b", "c", "d", "e"] {
            assert!(query.number(name, 0, 9).is_err(), "{name}");
        }
    }

    #[test]
    fn query_that_is_not_encoded_is_refused() {
        for text in ["a=%", "a=%4", "a=%zz", "a=%ff", &"a&".repeat(1_000)] {
            assert!(Query::read(text).is_err(), "{text:.20}");
        }
    }
}
