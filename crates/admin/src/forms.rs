//! The forms of bodies, and the names by which a document refers to them.
//!
//! Schemas are those that `schemars` derives from the very structs that serde reads and writes: their fields, defaults and lines of
//! documentation. What is read is described as it is read, which forgives what the reader of options forgives.

use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::marker::PhantomData;

/// What goes in or out as a body.
pub trait Content {
    /// Its media type.
    const MEDIA: &'static str;
    /// Its form.
    fn form(schemas: &mut Schemas, way: Way) -> Value;
}

/// Which of the two forms of a struct is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As it is read.
    In,
    /// As it is written.
    Out,
}

/// The named forms of a document.
pub struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

/// JSON of a type.
pub struct JsonOf<T>(PhantomData<T>);
/// JSON of a type on each line.
pub struct LinesOf<T>(PhantomData<T>);
/// Octets that mean nothing to people.
pub struct Octets;
/// A moment, RFC 3339.
pub(crate) struct Moment;
/// A length of time.
pub(crate) struct Span;

impl Default for Schemas {
    fn default() -> Schemas {
        let generator = |contract| {
            let settings = SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = Cow::Borrowed("/components/schemas");
                settings.meta_schema = None;
                settings.contract = contract;
            });
            settings.into_generator()
        };
        Schemas { read: generator(Contract::Deserialize), written: generator(Contract::Serialize) }
    }
}

impl Schemas {
    /// The form of a type: a reference where it has a name.
    pub fn of<T: JsonSchema>(&mut self, way: Way) -> Value {
        let mut schema = self.generator(way).subschema_for::<T>().to_value();
        if way == Way::In {
            as_read(&mut schema);
        }
        schema
    }

    /// The form itself.
    pub(crate) fn inline<T: JsonSchema>(&mut self, way: Way) -> Value {
        let mut schema = T::json_schema(self.generator(way)).to_value();
        if way == Way::In {
            as_read(&mut schema);
        }
        schema
    }

    fn generator(&mut self, way: Way) -> &mut SchemaGenerator {
        match way {
            Way::In => &mut self.read,
            Way::Out => &mut self.written,
        }
    }

    /// All that have names. One that is read and written is there as it is read.
    pub(crate) fn finish(mut self) -> Map<String, Value> {
        let mut named = self.written.take_definitions(false);
        for (name, mut schema) in self.read.take_definitions(false) {
            as_read(&mut schema);
            named.insert(name, schema);
        }
        named
    }
}

/// A member that need not be there may be null: the reader of options takes no notice of it. Whole numbers have an end.
fn as_read(schema: &mut Value) {
    match schema {
        Value::Array(list) => list.iter_mut().for_each(as_read),
        Value::Object(members) => {
            members.values_mut().for_each(as_read);
            if members.get("format").is_some_and(|format| *format == "uint" || *format == "uint64") {
                members.insert("format".to_owned(), "int64".into());
                members.entry("maximum").or_insert_with(|| i64::MAX.into());
            }
            if let Some(any) = members.get_mut("additionalProperties") {
                or_null(any);
            }
            let required = members.get("required").cloned().unwrap_or_default();
            let is_required = |name: &str| required.as_array().is_some_and(|all| all.iter().any(|one| one == name));
            let Some(Value::Object(properties)) = members.get_mut("properties") else { return };
            for (_, property) in properties.iter_mut().filter(|(name, _)| !is_required(name)) {
                or_null(property);
            }
        }
        _ => {}
    }
}

fn or_null(property: &mut Value) {
    let Some(members) = property.as_object_mut() else { return };
    if let Some(Value::Array(any)) = members.get_mut("anyOf") {
        if !any.iter().any(|one| one["type"] == "null") {
            any.push(json!({"type": "null"}));
        }
    } else if let Some(form) = members.remove("$ref") {
        members.insert("anyOf".to_owned(), json!([{"$ref": form}, {"type": "null"}]));
    } else if let Some(Value::String(one)) = members.get("type") {
        let both = json!([one, "null"]);
        members.insert("type".to_owned(), both);
    }
}

/// A member that may be left out, and is not null.
pub(crate) fn never_null(property: &mut Value) {
    let kind = property["type"].as_array().and_then(|kinds| kinds.iter().find(|kind| **kind != "null").cloned());
    if let Some(kind) = kind {
        property["type"] = kind;
    }
}

impl Content for String {
    const MEDIA: &'static str = "text/plain; charset=utf-8";

    fn form(_schemas: &mut Schemas, _way: Way) -> Value {
        json!({"type": "string"})
    }
}

impl Content for Octets {
    const MEDIA: &'static str = "application/octet-stream";

    fn form(_schemas: &mut Schemas, _way: Way) -> Value {
        json!({"type": "string", "format": "binary"})
    }
}

impl<T: JsonSchema> Content for JsonOf<T> {
    const MEDIA: &'static str = "application/json";

    fn form(schemas: &mut Schemas, way: Way) -> Value {
        schemas.of::<T>(way)
    }
}

impl<T: JsonSchema> Content for LinesOf<T> {
    const MEDIA: &'static str = "application/x-ndjson";

    fn form(schemas: &mut Schemas, way: Way) -> Value {
        schemas.of::<T>(way)
    }
}

impl JsonSchema for Moment {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Moment".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

impl JsonSchema for Span {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        // What is written has other units too, as `1year 2months`.
        if *generator.contract() == Contract::Serialize {
            return json_schema!({"type": "string"});
        }
        json_schema!({
            "anyOf": [{"type": "string", "pattern": SPAN}, {"type": "number", "minimum": 0, "exclusiveMaximum": SECONDS_END}],
            "examples": ["5m", "1h 30m", 300],
        })
    }
}

/// Seconds are counted in 64 bits.
const SECONDS_END: f64 = 18_446_744_073_709_551_616.0;
/// A length of time in text.
const SPAN: &str = "^[0-9]{1,9} ?(ms|s|sec|m|min|h|hours?|d|days?)( ?[0-9]{1,9} ?(ms|s|sec|m|min|h|hours?|d|days?))*$";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orders;

    #[test]
    fn what_may_be_left_out_may_be_null() {
        let mut schemas = Schemas::default();
        let form = schemas.inline::<orders::ReadyRequest>(Way::In);
        assert_eq!(form["required"], json!(["name", "reason"]));
        assert_eq!(form["properties"]["name"]["type"], "string");
        assert_eq!(form["properties"]["survives_restart"]["type"], json!(["boolean", "null"]));
        assert_eq!(form["properties"]["duration"]["anyOf"][1], json!({"type": "null"}));
        let mut property = form["properties"]["survives_restart"].clone();
        never_null(&mut property);
        assert_eq!(property["type"], "boolean");
        let form = schemas.inline::<orders::ReadyRequest>(Way::Out);
        assert_eq!(form["properties"]["survives_restart"]["type"], "boolean", "what is written is as it is");
    }
}
