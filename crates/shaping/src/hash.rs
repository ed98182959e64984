//! A short name for a content: equal contents have equal ones, on every host and in every release.
//!
//! FNV-1a with 128 bits: a dozen lines instead of a dependency. It guards against change, not against an adversary: who
//! writes shaping files may choose their content anyway; by accident, two of n contents agree with n^2 / 2^129.

use serde_json::Value;

/// The name of `value`, in 32 hexadecimal digits. The order of keys does not count.
pub(crate) fn of(value: &Value) -> String {
    let mut hash = Fnv(OFFSET);
    hash.value(value);
    format!("{:032x}", hash.0)
}

struct Fnv(u128);

impl Fnv {
    /// A kind, then the content with its length, so that no two values are written alike. As deep as its parser let it be.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.part(b'0', ""),
            Value::Bool(b) => self.part(b'b', if *b { "1" } else { "0" }),
            Value::Number(n) => self.part(b'n', &n.to_string()),
            Value::String(s) => self.part(b's', s),
            Value::Array(list) => {
                self.part(b'a', &list.len().to_string());
                list.iter().for_each(|value| self.value(value));
            }
            Value::Object(map) => {
                self.part(b'o', &map.len().to_string());
                let mut keys: Vec<&String> = map.keys().collect();
                keys.sort_unstable();
                for key in keys {
                    self.part(b'k', key);
                    self.value(&map[key]);
                }
            }
        }
    }

    fn part(&mut self, kind: u8, text: &str) {
        self.octets(&[kind]);
        self.octets(&(text.len() as u64).to_be_bytes());
        self.octets(text.as_bytes());
    }

    fn octets(&mut self, octets: &[u8]) {
        for octet in octets {
            self.0 = (self.0 ^ u128::from(*octet)).wrapping_mul(PRIME);
        }
    }
}

/// The algorithm's.
const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
/// The algorithm's.
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The published values of the algorithm.
    #[test]
    fn octets_hash_as_everywhere() {
        for (text, want) in [
            ("", 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d),
            ("a", 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964),
            ("foobar", 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18),
        ] {
            let mut hash = Fnv(OFFSET);
            hash.octets(text.as_bytes());
            assert_eq!(hash.0, want, "{text}");
        }
    }

    #[test]
    fn content_counts_and_the_order_of_keys_does_not() {
        assert_eq!(of(&json!({"a": 1, "b": [true, "x"]})), of(&json!({"b": [true, "x"], "a": 1})));
        let contents = [
            json!(null),
            json!(0),
            json!("0"),
            json!(false),
            json!([]),
            json!({}),
            json!(["ab"]),
            json!(["a", "b"]),
            json!(["b", "a"]),
            json!([["a"], "b"]),
            json!({"a": "b"}),
            json!({"a": {"b": 1}}),
            json!({"a": {}, "b": 1}),
        ];
        for (n, one) in contents.iter().enumerate() {
            assert_eq!(of(one).len(), 32);
            for other in &contents[n + 1..] {
                assert_ne!(of(one), of(other), "{one} {other}");
            }
        }
    }

    /// A golden value: a new release must not look like a new content.
    #[test]
    fn the_name_stays() {
        assert_eq!(of(&json!({"default": {"connection_limit": 10}})), "22ca79ac2b0b376dd0ec003d5ca9aa06");
    }
}
