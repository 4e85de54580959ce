//! JSON that a user wrote: what serde reads without a word, or refuses without a hint, is refused
//! in one sentence here.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::optimizers::nearest;

/// The value of the JSON file at `path`, which is to do `what`, such as `list runs`.
///
/// Fails where it cannot be read, and where [`parse`] does.
pub fn read<T: DeserializeOwned>(path: &Path, what: &str) -> Result<T> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    parse(&text, &shown.to_string(), what)
}

/// The value of a JSON text that is to do `what`. Messages call it `name`.
///
/// Fails where it is not of that type, where an object has a key twice, of which serde would take
/// the last, and where a key is unknown, naming the nearest one.
pub fn parse<T: DeserializeOwned>(text: &str, name: &str, what: &str) -> Result<T> {
    // serde would take a list for an object, its items in the order of the keys.
    if text.trim_start().starts_with('[') {
        bail!("{name} does not {what}: it is a list, not keys and values");
    }
    let unique = serde_json::from_str::<Unique>(text);
    let value = unique.and_then(|Unique| serde_json::from_str(text));
    value.map_err(|error| {
        let message = with_nearest(&error.to_string());
        anyhow!("{name} does not {what}: {message}")
    })
}

/// serde's message on an unknown name, which lists all that are known, with the nearest of them.
fn with_nearest(message: &str) -> String {
    // "unknown field `stpes`, expected one of `id`, `steps` at line 1 column 9"
    let words = message.split('`').collect::<Vec<_>>();
    let [kind @ ("unknown field " | "unknown variant "), name, _, ..] = words[..] else {
        return message.to_string();
    };
    let mut known = words.iter().skip(3).step_by(2).copied().peekable();
    if known.peek().is_none() {
        return message.to_string();
    }
    let place = words.last().copied().unwrap_or_default();
    format!(
        "{kind}{name:?}; the nearest is {:?}{place}",
        nearest(name, known)
    )
}

/// Any JSON whose objects have each key once.
struct Unique;

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(A::Error::custom(format!("key {key:?} is given twice")));
            }
            entries.next_value::<Self>()?;
            seen.insert(key);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read")]
    struct Run {
        id: String,
        steps: usize,
    }

    fn message<T: DeserializeOwned + fmt::Debug>(text: &str) -> String {
        format!("{:#}", parse::<T>(text, "a.json", "list runs").unwrap_err())
    }

    #[test]
    fn a_repeated_key_is_refused_at_any_depth() {
        for text in [
            r#"{"a": 1, "a": 1}"#,
            r#"{"d": [0, {"b": {"c": null, "a": [], "a": {}}}]}"#,
        ] {
            let found = message::<Value>(text);
            assert!(
                found.contains("key \"a\" is given twice at line 1"),
                "{found}"
            );
        }
        let apart = r#"{"a": [{"a": {"a": true}}, {"a": -1.5, "b": "a"}]}"#;
        assert!(parse::<Value>(apart, "a.json", "list runs").is_ok());
    }

    #[test]
    fn a_list_is_no_object() {
        let found = message::<Run>(r#" ["burn/a", 2]"#);
        assert_eq!(
            found,
            "a.json does not list runs: it is a list, not keys and values"
        );
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest() {
        assert_eq!(
            message::<Run>(r#"{"id": "burn/a", "stpes": 2}"#),
            "a.json does not list runs: unknown field \"stpes\"; the nearest is \"steps\" at line \
             1 column 24"
        );
        let found = message::<Run>(r#"{"id": "burn/a"}"#);
        assert!(found.contains("missing field `steps`"), "{found}");
    }
}
