// SPDX-License-Identifier: GPL-2.0-or-later
//! One JSON file of a bundle: with a version, written by a rename, read back
//! strictly. A field that this program does not know is refused, since dropping
//! it would change what the bundle says.

use super::BundleError;
use crate::cache::write_whole;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;

/// Version of every file of a bundle.
pub const VERSION: u64 = 1;

/// Writes `value`, with the version where it has none of its own.
pub fn write(path: &Path, value: &impl Serialize) -> Result<(), BundleError> {
    let json = serde_json::to_string_pretty(&versioned(path, value)?).map_err(|e| damaged(path, &e))?;
    write_whole(path, format!("{json}\n").as_bytes())?;
    Ok(())
}

/// Reads what [`write`] wrote.
pub fn read<T: Serialize + DeserializeOwned>(path: &Path) -> Result<T, BundleError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| BundleError::Unfinished { path: path.to_owned(), source })?;
    let whole: Value = serde_json::from_str(&text).map_err(|e| damaged(path, &e))?;
    match whole.get("version") {
        Some(version) if version.as_u64() == Some(VERSION) => {}
        found => {
            let found = found.map_or_else(|| "none".to_owned(), Value::to_string);
            return Err(BundleError::Version { path: path.to_owned(), found });
        }
    }
    // From the text: only that way an error has a line and a column.
    let value: T = serde_json::from_str(&text).map_err(|e| damaged(path, &e))?;
    match unknown(&whole, &versioned(path, &value)?, String::new()) {
        None => Ok(value),
        Some(field) => Err(BundleError::UnknownField { path: path.to_owned(), field }),
    }
}

/// Whether the file holds exactly `value`.
pub fn agrees(path: &Path, value: &impl Serialize) -> Result<bool, BundleError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| BundleError::Lacking { path: path.to_owned(), source })?;
    let found: Value = serde_json::from_str(&text).map_err(|e| damaged(path, &e))?;
    Ok(found == as_read(&versioned(path, value)?).map_err(|e| damaged(path, &e))?)
}

/// `value` through text, so that it holds numbers as they are read from a file.
pub fn as_read(value: &impl Serialize) -> serde_json::Result<Value> {
    serde_json::from_str(&serde_json::to_string(value)?)
}

fn versioned(path: &Path, value: &impl Serialize) -> Result<Value, BundleError> {
    let mut value = serde_json::to_value(value).map_err(|e| damaged(path, &e))?;
    if let Value::Object(fields) = &mut value {
        fields.entry("version").or_insert_with(|| VERSION.into());
    }
    Ok(value)
}

/// Path of the first field of `found` that `known` lacks. Fields that are left out when empty may
/// be there and empty.
fn unknown(found: &Value, known: &Value, place: String) -> Option<String> {
    match (found, known) {
        (Value::Object(found), Value::Object(known)) => found.iter().find_map(|(name, value)| {
            let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
            match known.get(name) {
                Some(known) => unknown(value, known, place),
                None if is_empty(value) => None,
                None => Some(place),
            }
        }),
        (Value::Array(found), Value::Array(known)) => found
            .iter()
            .zip(known)
            .enumerate()
            .find_map(|(index, (found, known))| unknown(found, known, format!("{place}[{index}]"))),
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn damaged(path: &Path, error: &serde_json::Error) -> BundleError {
    BundleError::Damaged { path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Inner {
        number: f64,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        list: Vec<u8>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Outer {
        inner: Vec<Inner>,
    }

    fn read_text(text: &str) -> Result<Outer, String> {
        let place = tempfile::tempdir().expect("temporary directory");
        let path = place.path().join("outer.json");
        std::fs::write(&path, text).expect("writable");
        read(&path).map_err(|e| e.to_string().replace(&format!("{}/", place.path().display()), ""))
    }

    #[test]
    fn what_is_written_is_read_and_agrees() {
        let place = tempfile::tempdir().expect("temporary directory");
        let path = place.path().join("outer.json");
        let value = Outer { inner: vec![Inner { number: 0.1 + 0.2, list: vec![] }] };
        let error = agrees(&path, &value).expect_err("not there").to_string();
        assert!(error.contains("take the whole bundle"), "{error}");
        write(&path, &value).expect("writable");
        assert_eq!(read::<Outer>(&path).expect("just written"), value);
        assert!(agrees(&path, &value).expect("readable"));
        let other = Outer { inner: vec![Inner { number: 0.3, list: vec![] }] };
        assert!(!agrees(&path, &other).expect("readable"), "one bit is a difference");
    }

    #[test]
    fn another_version_or_an_unknown_field_is_refused_by_name() {
        for (text, said) in [
            (r#"{"version":2,"inner":[]}"#, "outer.json has version 2"),
            (r#"{"inner":[]}"#, "outer.json has version none"),
            (r#"{"version":1,"inner":[{"number":1},{"number":1,"colour":"red"}]}"#, "inner[1].colour"),
            (r#"{"version":1,"inner":[],"extra":0}"#, "extra"),
            ("{\"version\":1,\n\"inner\":[{\"number\":null}]}", "line 2"),
            ("{\"version\":1", "line 1"),
        ] {
            let error = read_text(text).expect_err(text);
            assert!(error.contains(said), "{text}: {error}");
        }
        assert!(read_text(r#"{"version":1,"inner":[{"number":1,"list":[]}]}"#).is_ok(), "empty is no field");
    }
}
