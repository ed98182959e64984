//! The rules of `msg:import_headers` as scripts write them, and where their findings go.

use crate::convert;
use message::Meta;
use mime::{ImportMatch, ImportRule, NameTransform};
use mlua::Value;
use serde::Deserialize;

/// The rules a script gives: a list of `{name=, match=, transform=, target=, remove=}`.
pub(crate) fn rules(value: &Value) -> mlua::Result<Vec<ImportRule>> {
    let written: Vec<Written> = convert::parsed("msg:import_headers", value)?;
    written.into_iter().map(Written::rule).collect()
}

/// Stores what was found under the names the rules gave it.
pub(crate) fn store(meta: &mut Meta, values: Vec<(String, Vec<String>, bool)>) {
    for (name, mut values, as_list) in values {
        if as_list {
            meta.set(name, values);
        } else if let Some(value) = values.pop() {
            meta.set(name, value);
        }
    }
}

/// One rule, KumoMTA's names and defaults.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(default, rename = "match")]
    take: Take,
    #[serde(default)]
    transform: Transform,
    target: Option<String>,
    #[serde(default)]
    remove: bool,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Take {
    #[default]
    Last,
    First,
    All,
}

#[derive(Clone, Copy, Default, Deserialize)]
enum Transform {
    #[default]
    #[serde(rename = "snake_case")]
    Snake,
    #[serde(rename = "kebab_case")]
    Kebab,
    #[serde(rename = "camel_case")]
    Camel,
    #[serde(rename = "pascal_case")]
    Pascal,
}

impl Written {
    fn rule(self) -> mlua::Result<ImportRule> {
        let take = match self.take {
            Take::Last => ImportMatch::Last,
            Take::First => ImportMatch::First,
            Take::All => ImportMatch::All,
        };
        let transform = match self.transform {
            Transform::Snake => NameTransform::Snake,
            Transform::Kebab => NameTransform::Kebab,
            Transform::Camel => NameTransform::Camel,
            Transform::Pascal => NameTransform::Pascal,
        };
        ImportRule::new(&self.name, take, transform, self.target, self.remove).map_err(mlua::Error::external)
    }
}
