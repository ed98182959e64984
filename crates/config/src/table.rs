//! Reads a Lua table that arrived as JSON.
//!
//! Owns [`Node`], a serde deserializer over a borrowed `serde_json::Value` that knows what the trip through Lua
//! does to values: an empty table has no kind (it serves as list or map), a nil member is no member, and a
//! number computed as a float but whole (`1e9`) serves as an integer. In: a JSON value. Out: serde visits.
//! Fails with a [`Misfit`], which says where; nesting is bounded.

use crate::fault::Fault;
use crate::misfit::Misfit;
use crate::parse::shown;
use core::iter::Enumerate;
use core::slice;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde_json::Value;

/// One value and how deep it lies.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    value: &'a Value,
    depth: usize,
}

impl<'a> Node<'a> {
    /// The outermost value.
    pub(crate) fn root(value: &'a Value) -> Self {
        Node { value, depth: 0 }
    }

    fn child(self, value: &'a Value) -> Result<Self, Misfit> {
        if self.depth + 1 >= DEPTH_MAX {
            return Err(Fault::Refused(format!("tables are nested deeper than {DEPTH_MAX} levels")).into());
        }
        Ok(Node { value, depth: self.depth + 1 })
    }

    fn no_variant(self, names: &[&str]) -> Misfit {
        let text = format!("invalid value {}: expected one of {}", shown(self.value), names.join(", "));
        Fault::Refused(text).into()
    }

    fn members(self, map: &'a serde_json::Map<String, Value>) -> Members<'a> {
        Members { parent: self, rest: Some(map.iter()), value: None }
    }

    fn items(self, list: &'a [Value]) -> Items<'a> {
        Items { parent: self, rest: list.iter().enumerate() }
    }

    /// A whole number for a visitor that asked for an integer, whatever way Lua computed it.
    fn visit_integer<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        if let Some(whole) = self.value.as_f64().filter(|f| self.value.is_f64() && is_exact_integer(*f)) {
            return if whole < 0.0 { visitor.visit_i64(whole as i64) } else { visitor.visit_u64(whole as u64) };
        }
        self.deserialize_any(visitor)
    }
}

impl<'de> Deserializer<'de> for Node<'_> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let scalar = match self.value {
            Value::Array(list) => return visitor.visit_seq(self.items(list)),
            Value::Object(map) => return visitor.visit_map(self.members(map)),
            Value::Null => visitor.visit_unit(),
            Value::Bool(b) => visitor.visit_bool(*b),
            Value::String(s) => visitor.visit_str(s),
            Value::Number(n) => match (n.as_u64(), n.as_i64(), n.as_f64()) {
                (Some(u), _, _) => visitor.visit_u64(u),
                (_, Some(i), _) => visitor.visit_i64(i),
                (_, _, float) => visitor.visit_f64(float.unwrap_or(f64::NAN)),
            },
        };
        scalar.map_err(|e: Misfit| e.naming(self.value))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value {
            Value::Object(map) if map.is_empty() => visitor.visit_seq(self.items(&[])),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value {
            Value::Array(list) if list.is_empty() => {
                visitor.visit_map(Members { parent: self, rest: None, value: None })
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Misfit> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.deserialize_map(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        match self.value {
            Value::String(name) => visitor.visit_enum(name.as_str().into_deserializer()),
            Value::Object(map) if map.len() == 1 => match map.iter().find(|(_, value)| !value.is_null()) {
                Some((name, value)) => visitor.visit_enum(Variant { parent: self, name, value }),
                None => Err(self.no_variant(names)),
            },
            _ => Err(self.no_variant(names)),
        }
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.visit_integer(visitor)
    }
    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.visit_integer(visitor)
    }
    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.visit_integer(visitor)
    }
    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.visit_integer(visitor)
    }
    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.visit_integer(visitor)
    }
    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.visit_integer(visitor)
    }
    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.visit_integer(visitor)
    }
    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        self.visit_integer(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct identifier ignored_any
    }
}

struct Items<'a> {
    parent: Node<'a>,
    rest: Enumerate<slice::Iter<'a, Value>>,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Misfit;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Misfit> {
        match self.rest.next() {
            Some((item, value)) => {
                let child = self.parent.child(value).map_err(|misfit| misfit.at(item))?;
                seed.deserialize(child).map(Some).map_err(|misfit: Misfit| misfit.at(item))
            }
            None => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Members<'a> {
    parent: Node<'a>,
    /// None of an empty list, which serves as a table.
    rest: Option<serde_json::map::Iter<'a>>,
    /// Whose key was read.
    value: Option<(&'a str, &'a Value)>,
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = Misfit;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Misfit> {
        // A nil member of a Lua table is an absent one.
        match self.rest.iter_mut().flatten().find(|(_, value)| !value.is_null()) {
            Some((key, value)) => {
                self.value = Some((key, value));
                let text: de::value::StrDeserializer<'_, Misfit> = key.as_str().into_deserializer();
                seed.deserialize(text).map(Some).map_err(|misfit: Misfit| misfit.under(key))
            }
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Misfit> {
        match self.value.take() {
            Some((key, value)) => {
                let child = self.parent.child(value).map_err(|misfit| misfit.under(key))?;
                seed.deserialize(child).map_err(|misfit| misfit.under(key))
            }
            None => Err(Fault::Refused("a value was asked for before its key".to_owned()).into()),
        }
    }
}

/// A table whose only key is the name of a variant, and whose value is in there.
struct Variant<'a> {
    parent: Node<'a>,
    name: &'a str,
    value: &'a Value,
}

impl Variant<'_> {
    /// What stands in the variant, as something that `read` knows.
    fn read<T>(self, read: impl FnOnce(Node<'_>) -> Result<T, Misfit>) -> Result<T, Misfit> {
        self.parent.child(self.value).and_then(read).map_err(|misfit| misfit.under(self.name))
    }
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Misfit;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Misfit> {
        let name: de::value::StrDeserializer<'_, Misfit> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Misfit;

    fn unit_variant(self) -> Result<(), Misfit> {
        self.read(|content| de::Deserialize::deserialize(content))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Misfit> {
        self.read(|content| seed.deserialize(content))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Misfit> {
        self.read(|content| content.deserialize_tuple(len, visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Misfit> {
        self.read(|content| content.deserialize_map(visitor))
    }
}

fn is_exact_integer(f: f64) -> bool {
    f.fract() == 0.0 && f.abs() <= EXACT_FLOAT_MAX
}

/// Deepest nesting of tables accepted (levels); real configuration needs about eight.
pub(crate) const DEPTH_MAX: usize = 32;
/// Largest magnitude up to which every whole float is one integer (2^53).
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn read<T: for<'de> Deserialize<'de>>(value: &Value) -> Result<T, String> {
        T::deserialize(Node::root(value)).map_err(|e| e.to_string())
    }

    #[test]
    fn an_empty_table_is_list_or_map() {
        for empty in [json!([]), json!({})] {
            assert_eq!(read::<Vec<u8>>(&empty), Ok(vec![]));
            assert_eq!(read::<BTreeMap<String, u8>>(&empty), Ok(BTreeMap::new()));
        }
    }

    #[test]
    fn nil_members_are_absent_and_whole_floats_are_integers() {
        let got: BTreeMap<String, u32> = read(&json!({"a": null, "b": 1e3})).unwrap();
        assert_eq!(got, BTreeMap::from([("b".to_owned(), 1000)]));
        assert_eq!(read::<u32>(&json!(1.5)), Err("invalid type: number `1.5`, expected u32".into()));
        assert_eq!(read::<u8>(&json!(-1.0)), Err("invalid value integer `-1`: expected u8".into()));
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        assert!(read::<Value>(&nested(DEPTH_MAX - 1)).is_ok());
        let error = read::<Value>(&nested(DEPTH_MAX)).unwrap_err();
        assert_eq!(error, "tables are nested deeper than 32 levels");
    }
}
