//! The JSON Schema (draft 2020-12) of the terminal record, made from its types. `record.schema.json` is what
//! came of it, for others to read:
//!
//!     AGENT_SH_WRITE_SCHEMA=1 cargo test --lib record::schema
//!
//! writes it anew.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{FORMAT, LONGEST_TAIL, ORIGIN, Record, SCHEMA_URI, trace};

pub(crate) const SCHEMA: &str = include_str!("../record.schema.json");

/// Fields that a record of the first version does not have.
const LATER: [&str; 3] = ["redirected_stderr", "during_call", "missing_since"];

const ID: &str = "^[23456789abcdefghjkmnpqrstuvwxyz]{1,8}$";

fn time() -> Value {
    json!({
        "format": "date-time",
        "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z$",
    })
}

fn described(description: &str, mut schema: Value) -> Value {
    schema["description"] = json!(description);
    schema
}

/// What the types do not say: which texts a field may have, and which go together.
fn rules() -> Value {
    json!({
        "$id": SCHEMA_URI,
        "title": "The terminal record of a job",
        "description":
            "A CloudEvents 1.0 event, exactly one per job. Readers ignore fields that they do not know.",
        "properties": {
            "specversion": { "const": "1.0" },
            "id": {
                "description": "Derived from the job, the same in every delivery.",
                "pattern": ID.replace('$', r"\.exit$"),
            },
            "source": { "pattern": "^urn:agent-sh:[0-9a-z]+:[0-9]+(:[0-9a-z]+)?$" },
            "type": { "enum": ["dev.agent-sh.job.exited.v1", "dev.agent-sh.command.killed.v1"] },
            "subject": { "pattern": ID },
            "time": time(),
            "recordedtime": time(),
            "datacontenttype": { "const": "application/json" },
            "dataschema": { "const": SCHEMA_URI },
            "dataref": { "description": "The transcript.", "pattern": "^file:///" },
            "correlationid": { "description": "The session of the harness.", "minLength": 1 },
            "traceparent": {
                "description": "The trace that the caller belonged to (TRACEPARENT).",
                "pattern": "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$",
            },
            "tracestate": {
                "description": "What goes with the trace (TRACESTATE).",
                "maxLength": trace::LONGEST_STATE,
            },
            "sequence": {
                "description": "Boot time of the writing in nanoseconds; sorts as text within a boot.",
                "pattern": "^[0-9]{20}$",
            },
            "data": {
                "properties": {
                    "schema": { "const": FORMAT },
                    "job": { "pattern": ID },
                    "state": { "enum": ["exited", "signaled", "lost"] },
                    "exit_code": { "description": "Null unless it was observed." },
                    "signal": { "minimum": 1, "maximum": 64 },
                    "observed_by": { "enum": ["supervisor", "waiter", "reconciler"] },
                    "evidence": {
                        "enum": ["waitid", "pidfd-info", "proc-stat", "file-name", "none"],
                    },
                    "command": {
                        "properties": {
                            "sha256": {
                                "description":
                                    "HMAC-SHA-256 of the whole original text; the key is the store's.",
                                "pattern": "^([0-9a-f]{64})?$",
                            },
                        },
                    },
                    "started_at": time(),
                    "ended_at": described(
                        "Null when nobody saw when it ended: its status may be known all the same.",
                        time(),
                    ),
                    "clock": { "enum": ["boottime", "wall"] },
                    "output": {
                        "properties": {
                            "missing_since": described(
                                "The supervisor went away before the job, and this is the last that is known of \
                                 it: what the job wrote later may be missing, and nobody counted it. Null when \
                                 all was seen.",
                                time(),
                            ),
                        },
                    },
                    "left_running": { "items": { "pattern": ID } },
                    "untrusted_output_tail": { "maxLength": LONGEST_TAIL },
                    "origin": { "const": ORIGIN },
                },
                "oneOf": [ended("exited"), ended("signaled"), ended("lost")],
            },
        },
    })
}

/// What a record of this state must have, and must not have.
fn ended(state: &str) -> Value {
    let null_unless =
        |one: &str, kind: &str| json!({ "type": if state == one { kind } else { "null" } });
    let mut properties = json!({
        "state": { "const": state },
        "exit_code": null_unless("exited", "integer"),
        "signal": null_unless("signaled", "integer"),
        "reason": null_unless("lost", "string"),
    });
    if state != "signaled" {
        properties["core"] = json!({ "const": false });
    }
    json!({ "properties": properties })
}

fn generated() -> Value {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let generator = settings.for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Record>().to_value();
    adapt(&mut schema);
    merge(&mut schema, rules(), "");
    if let Value::Object(object) = &mut schema {
        for (at, name) in ["$schema", "$id", "title", "description"]
            .iter()
            .enumerate()
        {
            let value = object.shift_remove(*name).unwrap_or_default();
            object.shift_insert(at, (*name).to_owned(), value);
        }
    }
    schema
}

/// What the types alone would say too much of.
fn adapt(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            // Numbers of Rust, what a missing field is read as, and that there may be more fields.
            for name in ["format", "default", "additionalProperties"] {
                object.shift_remove(name);
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            if let Some(Value::Array(required)) = object.get_mut("required") {
                let required = std::mem::take(required);
                let (later, always) = required.into_iter().partition(is_later);
                never_null_unless(object, &[&later, &always]);
                object["required"] = Value::Array(always);
            }
            object.values_mut().for_each(adapt);
        }
        Value::Array(all) => all.iter_mut().for_each(adapt),
        _ => {}
    }
}

fn is_later(name: &Value) -> bool {
    LATER.iter().any(|later| name == later)
}

/// What is left out where there is nothing to say is not null either.
fn never_null_unless(object: &mut Map<String, Value>, written: &[&Vec<Value>]) {
    let Some(Value::Object(properties)) = object.get_mut("properties") else {
        return;
    };
    for (name, property) in properties {
        let is_written = written
            .iter()
            .any(|names| names.iter().any(|one| one == name));
        if let (false, Some(Value::Array(types))) = (is_written, property.get_mut("type")) {
            types.retain(|kind| kind != "null");
            let only = types.pop().filter(|_| types.is_empty());
            property["type"] = only.expect("one type beside null");
        }
    }
}

/// Adds `more`, whose every property must be one of the schema.
fn merge(schema: &mut Value, more: Value, path: &str) {
    match (schema, more) {
        (Value::Object(schema), Value::Object(more)) => {
            for (name, value) in more {
                let path = format!("{path}/{name}");
                match schema.get_mut(&name) {
                    Some(old) => merge(old, value, &path),
                    None => {
                        let is_property = path.ends_with(&format!("/properties/{name}"));
                        assert!(!is_property, "there is no {path}");
                        schema.insert(name, value);
                    }
                }
            }
        }
        (schema, more) => *schema = more,
    }
}

#[test]
fn the_schema_is_that_of_the_types() {
    let mut text = serde_json::to_string_pretty(&generated()).expect("JSON");
    text.push('\n');
    if std::env::var_os("AGENT_SH_WRITE_SCHEMA").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/job/record.schema.json");
        std::fs::write(path, &text).expect("the schema is written");
        return;
    }
    assert!(
        text == SCHEMA,
        "record.schema.json is out of date; AGENT_SH_WRITE_SCHEMA=1 cargo test --lib record::schema"
    );
}
