//! The query of a request, read member by member.
//!
//! In: `name=value` pairs. Out: a struct. What is wrong is 400, and says which member, its value and what was expected. A list takes a
//! member that is there several times; of any other, one is expected.

use crate::answer::Failed;
use crate::describe::{Input, Operation};
use crate::forms::{Schemas, Way};
use axum::extract::{FromRequestParts, Query as Pairs};
use axum::http::Uri;
use axum::http::request::Parts;
use core::fmt::Display;
use core::str::FromStr;
use schemars::JsonSchema;
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Error as _, IntoDeserializer, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use serde_json::Value;
use std::collections::BTreeMap;

/// What is asked in a query.
pub(crate) struct Query<T>(pub T);

/// What a query says of one member.
struct Words(Vec<String>);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, Failed> {
        Query::of(&parts.uri).map_err(Failed::bad)
    }
}

impl<T: DeserializeOwned> Query<T> {
    /// What a URI asks; an error names the member, its value and what was expected.
    pub fn of(uri: &Uri) -> Result<Query<T>, String> {
        let pairs = Pairs::<Vec<(String, String)>>::try_from_uri(uri);
        let Pairs(pairs) = pairs.map_err(|error| error.body_text())?;
        read(pairs).map(Query)
    }
}

impl<T: JsonSchema> Input for Query<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        let mut form = schemas.inline::<T>(Way::In);
        let required = form["required"].as_array().cloned().unwrap_or_default();
        let Some(Value::Object(members)) = form.get_mut("properties").map(Value::take) else { return };
        for (name, mut schema) in members {
            // Text is never null: what is not there is not there.
            if let Some(kinds) = schema["type"].as_array() {
                schema["type"] = kinds[0].clone();
            }
            operation.parameter("query", &name, required.iter().any(|one| *one == name), schema);
        }
    }
}

fn read<T: DeserializeOwned>(pairs: Vec<(String, String)>) -> Result<T, String> {
    let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in pairs {
        members.entry(name).or_default().push(value);
    }
    let members = members.into_iter().map(|(name, values)| (name, Words(values)));
    serde_path_to_error::deserialize(MapDeserializer::<_, Error>::new(members)).map_err(|error| {
        let (path, fault) = (error.path().to_string(), error.inner().to_string());
        // A member that is unknown, or missing, is named by the fault.
        if fault.contains(&format!("`{path}`")) || path == "." { fault } else { format!("{path}: {fault}") }
    })
}

impl Words {
    fn one(self) -> Result<String, Error> {
        match <[String; 1]>::try_from(self.0) {
            Ok([one]) => Ok(one),
            Err(all) => Err(Error::custom(format!("it is there {} times, as {all:?}: expected once", all.len()))),
        }
    }

    fn parsed<T: FromStr>(self, expected: impl Display) -> Result<T, Error> {
        let text = self.one()?;
        text.parse().map_err(|_| Error::custom(format!("invalid value {text:?}: expected {expected}")))
    }
}

impl IntoDeserializer<'_> for Words {
    type Deserializer = Words;

    fn into_deserializer(self) -> Words {
        self
    }
}

impl<'de> Deserializer<'de> for Words {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.one()?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.parsed("true or false")?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(self.parsed("a whole number, 0 or more")?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(SeqDeserializer::new(self.0.into_iter()))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct
        enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Asked {
        name: String,
        #[serde(default)]
        deep: bool,
        limit: Option<usize>,
        #[serde(default)]
        of: Vec<String>,
    }

    fn asked(query: &str) -> Result<Asked, String> {
        Query::of(&format!("/?{query}").parse().expect("a path")).map(|Query(asked)| asked)
    }

    #[test]
    fn members_are_read_as_what_they_are() {
        let of = vec!["a".to_owned(), "b,c".to_owned()];
        let expected = Asked { name: "7".to_owned(), deep: true, limit: Some(5), of };
        assert_eq!(asked("name=7&deep=true&limit=5&of=a&of=b%2Cc"), Ok(expected));
        let expected = Asked { name: String::new(), deep: false, limit: None, of: Vec::new() };
        assert_eq!(asked("name="), Ok(expected));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (query, says) in [
            ("", "missing field `name`"),
            ("name=a&deep=yes", "deep: invalid value \"yes\": expected true or false"),
            ("name=a&limit=-1", "limit: invalid value \"-1\": expected a whole number, 0 or more"),
            ("name=a&name=b", "name: it is there 2 times, as [\"a\", \"b\"]: expected once"),
            ("name=a&nme=b", "unknown field `nme`, expected one of `name`, `deep`, `limit`, `of`"),
        ] {
            assert_eq!(asked(query), Err(says.to_owned()), "{query}");
        }
    }
}
