//! How an option is written down once.
//!
//! Owns the `options!` macro, the [`Options`] trait it implements and [`OptionInfo`]. One line of `options!` gives a
//! field, its doc comment, its type, its default and its lower bound; from it come the struct, its `Default`, its
//! strict reader and the table the reference manual is made from, so they cannot disagree. Reading fails with
//! serde errors (unknown key, missing key, refused value). It knows no particular option.

use core::fmt;
use core::marker::PhantomData;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

/// What is known about one option, for the manual and for suggestions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// The key in the Lua table.
    pub name: &'static str,
    /// The Rust type of the field.
    pub kind: &'static str,
    /// True when it has no default and must be given.
    pub required: bool,
    /// The doc comment of the field.
    pub doc: &'static str,
}

/// A struct that is read key by key from a table.
pub trait Options: Default {
    /// Every key, in order of declaration.
    const NAMES: &'static [&'static str];
    /// Every option, in order of declaration.
    const INFO: &'static [OptionInfo];
    /// True when unknown keys are skipped instead of refused.
    const TOLERANT: bool;

    /// Reads the value of `key`; false when there is no such option.
    fn read_field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error>;

    /// What no single field can judge; the text names the option.
    fn check(&self) -> Result<(), String>;
}

/// Reads a whole options table.
pub(crate) fn read<'de, T: Options, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(TableVisitor(PhantomData))
}

struct TableVisitor<T>(PhantomData<T>);

impl<'de, T: Options> Visitor<'de> for TableVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of options")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut out = T::default();
        let mut given: Vec<String> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if !out.read_field(&key, &mut map)? {
                if !T::TOLERANT {
                    return Err(A::Error::unknown_field(&key, T::NAMES));
                }
                map.next_value::<serde::de::IgnoredAny>()?;
            }
            given.push(key);
        }
        if let Some(missing) = T::INFO.iter().find(|o| o.required && !given.iter().any(|key| key == o.name)) {
            return Err(A::Error::missing_field(missing.name));
        }
        out.check().map_err(A::Error::custom)?;
        Ok(out)
    }
}

/// Reads an integer option that has a lower bound.
pub(crate) struct AtLeast<T> {
    pub(crate) min: u64,
    pub(crate) kind: PhantomData<T>,
}

impl<'de, T: Deserialize<'de> + Bounded> DeserializeSeed<'de> for AtLeast<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        let value = T::deserialize(deserializer)?;
        match value.amount() {
            Some(amount) if amount < self.min => {
                Err(D::Error::custom(format!("invalid value {amount}: expected an integer >= {}", self.min)))
            }
            _ => Ok(value),
        }
    }
}

/// A number with a lower bound, or an absent one.
pub(crate) trait Bounded {
    fn amount(&self) -> Option<u64>;
}

impl Bounded for usize {
    fn amount(&self) -> Option<u64> {
        Some(*self as u64)
    }
}

impl Bounded for u64 {
    fn amount(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Bounded for u16 {
    fn amount(&self) -> Option<u64> {
        Some(u64::from(*self))
    }
}

impl<T: Bounded> Bounded for Option<T> {
    fn amount(&self) -> Option<u64> {
        self.as_ref().and_then(Bounded::amount)
    }
}

/// Declares an options struct.
///
/// `name: Type = default;` is an option, `name: Type;` a required one, `, min N` before the semicolon a lower bound.
/// After the struct's name: `tolerant` skips unknown keys, `check path` runs a function over the whole table.
macro_rules! options {
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (@required) => { true };
    (@required $default:expr) => { false };
    (@tolerant) => { false };
    (@tolerant tolerant) => { true };
    (@check $this:expr) => { Ok(()) };
    (@check $this:expr, $check:path) => { $check($this) };
    (@read $map:ident $ty:ty) => { $map.next_value::<$ty>()? };
    (@read $map:ident $ty:ty, $min:literal) => {
        $map.next_value_seed($crate::options::AtLeast::<$ty> { min: $min, kind: core::marker::PhantomData })?
    };
    (
        $(#[doc = $head:literal])+
        $vis:vis struct $name:ident $(as $flag:ident)? $(check $check:path)? {
            $(
                $(#[doc = $doc:literal])+
                $field:ident : $ty:ty $(= $default:expr)? $(, min $min:literal)? ;
            )+
        }
    ) => {
        $(#[doc = $head])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        $vis struct $name {
            $( $(#[doc = $doc])+ pub $field: $ty, )+
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $( $field: $crate::options::options!(@default $($default)?), )+ }
            }
        }

        impl $crate::options::Options for $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];
            const INFO: &'static [$crate::options::OptionInfo] = &[$(
                $crate::options::OptionInfo {
                    name: stringify!($field),
                    kind: stringify!($ty),
                    required: $crate::options::options!(@required $($default)?),
                    doc: concat!($($doc, "\n"),+),
                }
            ),+];
            const TOLERANT: bool = $crate::options::options!(@tolerant $($flag)?);

            fn read_field<'de, A: serde::de::MapAccess<'de>>(
                &mut self,
                key: &str,
                map: &mut A,
            ) -> Result<bool, A::Error> {
                match key {
                    $( stringify!($field) => {
                        self.$field = $crate::options::options!(@read map $ty $(, $min)?);
                    } )+
                    _ => return Ok(false),
                }
                Ok(true)
            }

            fn check(&self) -> Result<(), String> {
                $crate::options::options!(@check self $(, $check)?)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::options::read(deserializer)
            }
        }

        $crate::parse::from_table!($name);
    };
}
pub(crate) use options;
