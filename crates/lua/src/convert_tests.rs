//! Properties of the border between Lua and JSON.

use super::*;
use proptest::prelude::*;

/// Values as scripts may have them, with what JSON has not.
#[derive(Clone, Debug)]
enum Odd {
    Nil,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Octets(Vec<u8>),
    Function,
    /// Pairs in order; a later one with the same key counts.
    Table(Vec<(Odd, Odd)>),
    /// A table that has itself as a member.
    Cycle,
}

fn odd() -> impl Strategy<Value = Odd> {
    let leaf = prop_oneof![
        1 => Just(Odd::Nil),
        2 => any::<bool>().prop_map(Odd::Boolean),
        4 => any::<i64>().prop_map(Odd::Integer),
        4 => (1i64..4).prop_map(Odd::Integer),
        2 => any::<f64>().prop_map(Odd::Number),
        4 => "[a-z]{0,4}".prop_map(|text| Odd::Octets(text.into_bytes())),
        1 => any::<Vec<u8>>().prop_map(Odd::Octets),
        1 => Just(Odd::Function),
        1 => Just(Odd::Cycle),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| prop::collection::vec((inner.clone(), inner), 0..6).prop_map(Odd::Table))
}

fn made(lua: &Lua, odd: &Odd) -> Value {
    match odd {
        Odd::Nil => Value::Nil,
        Odd::Boolean(b) => Value::Boolean(*b),
        Odd::Integer(i) => Value::Integer(*i),
        Odd::Number(n) => Value::Number(*n),
        Odd::Octets(octets) => Value::String(lua.create_string(octets).expect("room")),
        Odd::Function => Value::Function(lua.create_function(|_, ()| Ok(())).expect("room")),
        Odd::Table(pairs) => {
            let table = lua.create_table().expect("room");
            for (key, value) in pairs {
                // Lua refuses nil and NaN as keys.
                let _: mlua::Result<()> = table.raw_set(made(lua, key), made(lua, value));
            }
            Value::Table(table)
        }
        Odd::Cycle => {
            let table = lua.create_table().expect("room");
            table.raw_set("itself", &table).expect("room");
            Value::Table(table)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// What gets through is the same when it comes back; what does not says where and what was expected, or cannot be.
    #[test]
    fn values_cross_the_border_unchanged_or_not_at_all(odd in odd()) {
        let lua = Lua::new();
        let value = made(&lua, &odd);
        match to_json(&lua, &value) {
            Ok(json) => {
                let back = to_lua(&lua, &json).expect("JSON has a Lua value");
                prop_assert_eq!(to_json(&lua, &back).expect("as before"), json);
            }
            Err(error) => {
                let text = error.to_string();
                let says = ["expected", "no JSON", "not UTF-8", "nested deeper", "cannot"];
                prop_assert!(says.iter().any(|word| text.contains(word)), "{}", text);
            }
        }
    }

    /// No table makes an options struct panic, and each refusal is one that helpers can take apart.
    #[test]
    fn options_are_read_or_refused_in_kumomtas_form(odd in odd(), name in "[a-z_]{1,12}", known in 0usize..40) {
        let lua = Lua::new();
        let names = config::option_names("make_egress_path");
        let table = lua.create_table().expect("room");
        let name = if known < 30 { names[known % names.len()] } else { &name };
        table.raw_set(name, made(&lua, &odd)).expect("room");
        let read = options::<config::EgressPath>("kumo.make_egress_path", &Value::Table(table));
        if let Err(error) = read {
            let text = error.to_string();
            prop_assert!(text.contains("deserialize error: ") && text.contains(", while processing "), "{}", text);
            prop_assert!(text.contains(name), "{}: {}", name, text);
        }
    }
}
