//! JSON files of others, changed in place: comments, order, indentation and every other byte stay.
//!
//! Pure: text in, text out.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::Value;

/// What the clients read: JSON, with comments and trailing commas where they allow them.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A file that holds one JSON object.
pub(crate) struct Document {
    root: CstRootNode,
    object: CstObject,
    marked: bool,
}

impl Document {
    /// `Err` says why it is no JSON object. A blank file is an empty one.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let marked = text.starts_with(BYTE_ORDER_MARK);
        let plain = text.trim_start_matches(BYTE_ORDER_MARK);
        let plain = if plain.trim().is_empty() {
            "{}\n"
        } else {
            plain
        };
        let root = CstRootNode::parse(plain, &OPTIONS).map_err(|error| {
            let kind = error.kind().to_string();
            let (line, column) = (error.line_display(), error.column_display());
            format!("no valid JSON: line {line}, column {column}: {kind}")
        })?;
        let object = root
            .object_value()
            .ok_or_else(|| "no JSON object".to_owned())?;
        Ok(Self {
            root,
            object,
            marked,
        })
    }

    pub(crate) fn object(&self) -> &CstObject {
        &self.object
    }

    /// What is left of `text`, from which this was read, once our parts are out. One that had none comes back
    /// as it was, blank or not.
    pub(crate) fn stripped(&self, text: &str, changed: bool) -> String {
        if changed {
            self.text()
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn text(&self) -> String {
        let text = self.root.to_string();
        if self.marked {
            format!("{BYTE_ORDER_MARK}{text}")
        } else {
            text
        }
    }
}

/// The object under this key, made if there is none. `Err`: something else is there.
pub(crate) fn object_at(object: &CstObject, key: &str, path: &str) -> Result<CstObject, String> {
    object
        .object_value_or_create(key)
        .ok_or_else(|| format!("'{path}' in it is no object"))
}

pub(crate) fn array_at(object: &CstObject, key: &str, path: &str) -> Result<CstArray, String> {
    object
        .array_value_or_create(key)
        .ok_or_else(|| format!("'{path}' in it is no list"))
}

/// The text under this key, if it is one.
pub(crate) fn text_at(object: &CstObject, key: &str) -> Option<String> {
    let value = object.get(key)?.value()?;
    value.as_string_lit()?.decoded_value().ok()
}

/// Sets or adds a key; one that has the value already stays as it is written.
pub(crate) fn set(object: &CstObject, key: &str, value: &Value) {
    match object.get(key) {
        Some(found) => {
            if found.value().as_ref().and_then(plain).as_ref() != Some(value) {
                found.set_value(input(value));
            }
        }
        None => {
            object.append(key, input(value));
        }
    }
}

/// Removes a key, and says whether it was there.
pub(crate) fn unset(object: &CstObject, key: &str) -> bool {
    match object.get(key) {
        Some(found) => {
            found.remove();
            true
        }
        None => false,
    }
}

/// Removes a list or an object that has become empty.
pub(crate) fn unset_empty(object: &CstObject, key: &str) {
    let empty = object
        .get(key)
        .and_then(|found| found.value())
        .is_some_and(|value| {
            let none = |children: Vec<CstNode>| children.is_empty();
            value
                .as_object()
                .is_some_and(|object| object.properties().is_empty())
                || value.as_array().is_some_and(|array| none(array.elements()))
        });
    if empty {
        unset(object, key);
    }
}

/// The value without its form. `None`: it is not one.
pub(crate) fn plain(node: &CstNode) -> Option<Value> {
    node.to_serde_value()
}

pub(crate) fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(map) => CstInputValue::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), input(value)))
                .collect(),
        ),
    }
}

pub(crate) fn is_empty_object(text: &str) -> bool {
    Document::parse(text).is_ok_and(|document| {
        document.object().properties().is_empty() && !text.contains("//") && !text.contains("/*")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A settings file can be a project's, and so anybody's.
    #[test]
    fn a_text_that_is_nested_too_deeply_is_no_settings_file() {
        for piece in ["[", "{\"a\":", "[{\"a\":", "//\n["] {
            let deep = format!("{{\"a\": {}", piece.repeat(200_000));
            assert!(Document::parse(&deep).is_err(), "{piece}");
        }
        let harmless = format!("{{\"a\": \"{}\"}}", "[{".repeat(1000));
        assert!(Document::parse(&harmless).is_ok());
    }
}
