//! Values that are one piece of text in the policy file.
//!
//! Owns the `text_form!` macro: a type with `FromStr` and `Display` becomes a serde value read from and written as a
//! string. In: a string. Out: the parsed type. Fails with the `FromStr` error's own words, which name the text and
//! what was expected. Types that also accept numbers write their own visitor instead.

macro_rules! text_form {
    ($ty:ty, $expected:literal) => {
        impl serde::Serialize for $ty {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $ty {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $ty;
                    fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                        f.write_str($expected)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$ty, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}
pub(crate) use text_form;

/// A text does not follow its type's grammar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} {text:?}: expected {expected}")]
pub struct BadText {
    /// The type, in words.
    pub what: &'static str,
    /// The text given.
    pub text: String,
    /// What it should look like, and what is wrong if more is known.
    pub expected: String,
}

impl BadText {
    pub(crate) fn new(what: &'static str, text: &str, expected: impl Into<String>) -> Self {
        BadText { what, text: text.to_owned(), expected: expected.into() }
    }
}
