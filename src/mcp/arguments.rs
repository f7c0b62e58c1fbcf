//! What a client gave, checked. Pure.

use rmcp::model::JsonObject;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::text;

/// No command or text is longer; a client that sends more is told, not cut.
const LONGEST: usize = 1 << 20;

pub(super) struct Arguments<'a> {
    given: &'a JsonObject,
}

fn wrong(text: String) -> Error {
    Error::Usage { text, hint: None }
}

impl<'a> Arguments<'a> {
    /// Only these are known: a misspelt one must not be passed over in silence.
    pub(super) fn new(given: &'a JsonObject, known: &[&str]) -> Result<Self> {
        for name in given.keys() {
            if !known.contains(&name.as_str()) {
                let known = match known {
                    [] => "this tool takes none".to_owned(),
                    known => format!("this tool takes {}", known.join(", ")),
                };
                let name = text::shorten(name, 64);
                return Err(wrong(format!("unknown argument '{name}'; {known}")));
            }
        }
        Ok(Self { given })
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.given.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        match value.as_str() {
            Some(text) if text.len() > LONGEST => Err(wrong(format!("'{name}' is too long"))),
            Some(text) if text.contains('\0') => Err(wrong(format!("'{name}' has a NUL byte"))),
            Some(text) => Ok(Some(text)),
            None => Err(wrong(format!("'{name}' must be a string"))),
        }
    }

    pub(super) fn needed(&self, name: &str) -> Result<&'a str> {
        match self.text(name)? {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(wrong(format!("'{name}' is missing"))),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        // Some clients write every number with a point.
        let whole = value
            .as_f64()
            .filter(|number| number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(number));
        match (value.as_u64(), whole) {
            (Some(number), _) => Ok(Some(number)),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole, not negative, and within 32 bits"
            )]
            (None, Some(whole)) => Ok(Some(whole as u64)),
            _ => Err(wrong(format!("'{name}' must be a whole number, 0 or more"))),
        }
    }

    /// Seconds, or text such as `10m`, as the verbs take it.
    pub(super) fn time(&self, name: &str) -> Result<Option<String>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => {
                let seconds = number.as_f64().unwrap_or(-1.0);
                if !(0.0..=1e9).contains(&seconds) {
                    return Err(wrong(format!("'{name}' is no time that can be waited")));
                }
                Ok(Some(format!("{}ms", (seconds * 1000.0).round())))
            }
            Some(_) => Err(wrong(format!(
                "'{name}' must be seconds, or '90s', '10m', '2h'"
            ))),
        }
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<&'a str>> {
        let must = || wrong(format!("'{name}' must be a list of strings"));
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let texts = items.iter().map(|item| item.as_str().ok_or_else(must));
                texts.collect()
            }
            // One is a list of one.
            Some(Value::String(one)) => Ok(vec![one]),
            Some(_) => Err(must()),
        }
    }

    /// A word, or a number in its place.
    pub(super) fn word(&self, name: &str) -> Result<Option<String>> {
        match self.get(name) {
            Some(Value::Number(_)) => Ok(self.number(name)?.map(|number| number.to_string())),
            _ => Ok(self.text(name)?.map(str::to_owned)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: &Value) -> JsonObject {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn what_clients_write_is_understood() {
        let given = object(&json!({
            "id": "x", "lines": 20, "timeout": 1.5, "idle": "10m", "keys": ["up", "enter"], "signal": 9, "name": null,
            "for_port": 3000.0,
        }));
        let known: Vec<&str> = given.keys().map(String::as_str).collect();
        let given = Arguments::new(&given, &known).unwrap();
        assert_eq!(given.needed("id").unwrap(), "x");
        assert_eq!(given.number("lines").unwrap(), Some(20));
        assert_eq!(given.number("for_port").unwrap(), Some(3000));
        assert_eq!(given.time("timeout").unwrap().as_deref(), Some("1500ms"));
        assert_eq!(given.time("idle").unwrap().as_deref(), Some("10m"));
        assert_eq!(given.texts("keys").unwrap(), ["up", "enter"]);
        assert_eq!(given.word("signal").unwrap().as_deref(), Some("9"));
        assert_eq!(given.text("name").unwrap(), None);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (given, said) in [
            (json!({"idd": "x"}), "unknown argument 'idd'"),
            (json!({"id": 3}), "'id' must be a string"),
            (json!({"id": ""}), "'id' is missing"),
            (json!({}), "'id' is missing"),
            (json!({"id": "a\u{0}b"}), "NUL"),
        ] {
            let given = object(&given);
            let known = Arguments::new(&given, &["id"]);
            let error = known
                .and_then(|known| known.needed("id").map(drop))
                .unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
        let given = object(&json!({"lines": -1, "timeout": true, "keys": [1], "idle": -3}));
        let given = Arguments::new(&given, &["lines", "timeout", "keys", "idle"]).unwrap();
        assert!(given.number("lines").is_err() && given.time("timeout").is_err());
        assert!(given.texts("keys").is_err() && given.time("idle").is_err());
    }
}
