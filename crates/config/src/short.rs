//! A table that may be written as one word.
//!
//! Owns [`Short`]. In: a string, or the options table it stands for. Out: the table's struct. Fails as either does.

use crate::options::Options;
use crate::text::BadText;
use core::fmt;
use core::marker::PhantomData;
use serde::{Deserialize, Deserializer, Serialize, de};

/// A struct of options with a short form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Short<T>(pub T);

/// What the short form means.
pub trait FromText: Sized {
    /// Both forms, for errors.
    const EXPECTED: &'static str;

    /// Reads the short form.
    fn from_text(text: &str) -> Result<Self, BadText>;
}

impl<'de, T: Options + FromText + Deserialize<'de>> Deserialize<'de> for Short<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTable(PhantomData))
    }
}

struct TextOrTable<T>(PhantomData<T>);

impl<'de, T: Options + FromText + Deserialize<'de>> de::Visitor<'de> for TextOrTable<T> {
    type Value = Short<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Short<T>, E> {
        T::from_text(text).map(Short).map_err(E::custom)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Short<T>, A::Error> {
        T::deserialize(de::value::MapAccessDeserializer::new(map)).map(Short)
    }
}
