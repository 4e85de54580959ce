//! What the metadata of a trace says: the run, and the tensors in their order.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::Otherwise;

/// Of a tensor; PyTorch has as many.
const MOST_DIMENSIONS: usize = 64;
const MOST: u64 = 1 << 40;
const MALFORMED: Otherwise = Otherwise("the metadata is malformed");

/// An object of JSON. By itself, serde takes an array for a structure, too.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// One tensor or number of a trace.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Entry<'a> {
    /// The update after which it stood so.
    pub step: u64,
    /// What it is: a loss, a parameter.
    #[serde(borrow)]
    pub quantity: Cow<'a, str>,
    /// Its name in PyTorch's `state_dict`.
    #[serde(borrow)]
    pub tensor: Cow<'a, str>,
    shape: Vec<u64>,
    #[serde(borrow)]
    dtype: Cow<'a, str>,
    /// Where its values begin.
    pub first_row: u64,
    /// How many they are.
    #[serde(skip)]
    pub count: u64,
}

impl Entry<'_> {
    /// Whether its units in the last place are those of a float of 32 bits.
    pub fn is_f32(&self) -> bool {
        self.dtype == "float32"
    }

    /// Its shape, as Python writes a tuple, and its dtype: what a hash of it begins with.
    pub fn described(&self) -> String {
        let sizes: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        let comma = if sizes.len() == 1 { "," } else { "" };
        format!("({}{comma}) {}\n", sizes.join(", "), self.dtype)
    }
}

#[derive(Deserialize)]
struct Configuration {
    every: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    schema: u64,
    #[serde(borrow)]
    run: Cow<'a, str>,
    error: Option<IgnoredAny>,
    unfinished: Option<IgnoredAny>,
    configuration: Option<Object<Configuration>>,
    #[serde(borrow)]
    contents: Vec<Object<Entry<'a>>>,
}

/// What pitb's traces are, as Python says it.
#[derive(Deserialize)]
pub struct Format {
    schema: u64,
    dtypes: Vec<String>,
}

/// The run of a trace and its tensors.
pub struct Contents<'a> {
    /// Its name.
    pub run: Cow<'a, str>,
    /// In the order of their rows.
    pub entries: Vec<Entry<'a>>,
}

impl<'a> Contents<'a> {
    /// Read the metadata of a run that was ended.
    pub fn parse(json: &'a [u8], format: &Format) -> Result<Self, Otherwise> {
        let Object(found): Object<Metadata> =
            serde_json::from_slice(json).map_err(|_| MALFORMED)?;
        let recorded = found
            .configuration
            .is_some_and(|said| said.0.every.is_some());
        if found.schema != format.schema || found.run.is_empty() || recorded {
            return Err(Otherwise("it is no trace of a run"));
        }
        if found.error.is_some() || found.unfinished.is_some() {
            return Err(Otherwise("the run was not ended"));
        }
        let mut rows = 0;
        let mut seen = HashSet::with_capacity(found.contents.len());
        let mut entries: Vec<Entry> = found.contents.into_iter().map(|item| item.0).collect();
        for entry in &mut entries {
            entry.count = product(&entry.shape)?;
            if entry.step >= 1 << 31
                || entry.first_row != rows
                || !format.dtypes.iter().any(|known| *known == entry.dtype)
                || entry.shape.len() > MOST_DIMENSIONS
            {
                return Err(MALFORMED);
            }
            rows = rows.checked_add(entry.count).ok_or(MALFORMED)?;
        }
        for entry in &entries {
            if !seen.insert((entry.step, &*entry.quantity, &*entry.tensor)) {
                return Err(MALFORMED);
            }
        }
        Ok(Self {
            run: found.run,
            entries,
        })
    }
}

fn product(shape: &[u64]) -> Result<u64, Otherwise> {
    if shape.iter().any(|&size| size >= MOST) {
        return Err(MALFORMED);
    }
    let found = shape
        .iter()
        .try_fold(1_u64, |all, &size| all.checked_mul(size));
    found.filter(|&count| count < MOST).ok_or(MALFORMED)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// What the tests' traces are.
    pub fn format() -> Format {
        Format {
            schema: 1,
            dtypes: vec!["float32".into(), "float64".into()],
        }
    }

    const ENTRY: &str = r#"{"step": 1, "quantity": "param", "tensor": "w", "shape": [2, 3],
        "dtype": "float32", "first_row": 0}"#;

    /// The first entry, in words, and how many values it has.
    fn parsed(more: &str, entries: &str) -> Result<(String, u64), Otherwise> {
        let json = format!(r#"{{"schema": 1, "run": "a"{more}, "contents": [{entries}]}}"#);
        let found = Contents::parse(json.as_bytes(), &format())?;
        Ok((found.entries[0].described(), found.entries[0].count))
    }

    #[test]
    fn entries_are_read() {
        assert_eq!(parsed("", ENTRY).unwrap(), ("(2, 3) float32\n".into(), 6));
        let vector = ENTRY.replace("[2, 3]", "[5]");
        assert_eq!(parsed("", &vector).unwrap(), ("(5,) float32\n".into(), 5));
        let number = ENTRY.replace("[2, 3]", "[]");
        assert_eq!(parsed("", &number).unwrap(), ("() float32\n".into(), 1));
    }

    #[test]
    fn what_is_unusual_is_left_alone() {
        for more in [
            r#", "error": "it broke""#,
            r#", "unfinished": "ended after 3 steps""#,
            r#", "configuration": {"every": 2}"#,
            r#", "configuration": [null]"#,
            r#", "run": "b""#,
        ] {
            assert!(parsed(more, ENTRY).is_err(), "{more}");
        }
        assert!(parsed(r#", "error": null, "else": [1e3]"#, ENTRY).is_ok());
    }

    #[test]
    fn malformed_entries_are_refused() {
        for (from, to) in [
            ("\"step\": 1", "\"step\": -1"),
            ("\"step\": 1", "\"step\": 1.0"),
            ("\"step\": 1", "\"step\": true"),
            ("\"step\": 1", "\"step\": 2147483648"),
            ("\"first_row\": 0", "\"first_row\": 1"),
            ("float32", "float8"),
            ("[2, 3]", "[1099511627776]"),
            ("[2, 3]", "[1099511627775, 1099511627775, 0]"),
            ("[2, 3]", "\"23\""),
            ("\"tensor\"", "\"tenser\""),
            ("\"w\"", "\"w\", \"more\": 1"),
        ] {
            assert!(parsed("", &ENTRY.replace(from, to)).is_err(), "{to}");
        }
        let array = r#"[1, "param", "w", [2, 3], "float32", 0]"#;
        assert!(parsed("", array).is_err());
        let twice = format!(
            "{ENTRY}, {}",
            ENTRY.replace("\"first_row\": 0", "\"first_row\": 6")
        );
        assert!(parsed("", &twice).is_err());
    }
}
