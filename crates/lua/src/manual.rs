//! The reference manual, made from what the code says of itself: modules, objects, events, options, helpers and their files,
//! metadata, types, templates.
//!
//! In: nothing. Out: files and their text, Markdown. The tests hold those in docs/reference against it.

use crate::api::{Member, Module, Proof, Type};
use crate::event_names::EVENTS;
use crate::helper_names::{HELPERS, Helper};
use crate::modules::submodules::{ALIASES, MODULES};
use crate::names_of::{Group, Name, Shape};
use crate::value_names::{ADDED, PAGES, Page};
use config::{CONSTRUCTORS, OptionInfo, default_of, options_of, words_of};
use serde_json::Value;
use std::fmt::Write as _;

/// Name and text of every page.
pub fn pages() -> Vec<(String, String)> {
    let mut pages = vec![("README.md".to_owned(), index()), ("events.md".to_owned(), events())];
    pages.extend(MODULES.iter().map(|module| (format!("{}.md", module.name), module_page(module))));
    pages.push(("options.md".to_owned(), options()));
    pages.extend(HELPERS.iter().map(|helper| (format!("{}.md", helper.name), helper_page(helper))));
    pages.extend(PAGES.iter().map(|page| (format!("{}.md", page.name), page_of_groups(page))));
    pages
}

fn index() -> String {
    let mut text =
        format!("{NOTICE}# Reference\n\nWhat a policy script can use, generated from the program itself.\n\n");
    text.push_str("| page | what |\n|---|---|\n| [events](events.md) | what a policy is asked |\n");
    for module in MODULES {
        row(&mut text, &[&format!("[{0}]({0}.md)", module.name), first_sentence(module.doc)]);
    }
    text.push_str("| [options](options.md) | of every constructor and `start_*` function |\n");
    for helper in HELPERS {
        row(&mut text, &[&format!("[{0}]({0}.md)", helper.name), first_sentence(helper.doc)]);
    }
    for page in PAGES {
        row(&mut text, &[&format!("[{0}]({0}.md)", page.name), first_sentence(page.doc)]);
    }
    text.push_str("\n## Names that moved\n\n");
    text.push_str("These are the same functions under their older names:\n\n| name | is |\n|---|---|\n");
    for (alias, module, function) in ALIASES {
        row(&mut text, &[&format!("`kumo.{alias}`"), &format!("`kumo.{module}.{function}`")]);
    }
    text
}

fn events() -> String {
    let mut text = format!("{NOTICE}# Events\n\n");
    text.push_str("A handler is registered with `kumo.on(NAME, function(...) ... end)`. Where several handlers are allowed they are ");
    text.push_str("asked in the order of their registration until one returns something other than nil.\n");
    for event in EVENTS {
        let class = if event.is_multiple { " Several handlers." } else { "" };
        let _ = write!(text, "\n## {}\n\n`function{}`\n\n{}{class}\n", event.name, event.signature, event.doc);
        proof(&mut text, &event.proof);
    }
    added(&mut text, "events");
    text
}

fn module_page(module: &Module) -> String {
    let mut text = format!("{NOTICE}# {}\n\n{}\n", module.name, module.doc);
    for function in module.functions() {
        let _ = write!(
            text,
            "\n## {0}\n\n`{0}{1}`\n\n{2}\n",
            function.full_name,
            function.signature,
            sentence(function.doc)
        );
        if !options_of(function.full_name).is_empty() {
            let _ = write!(text, "\nOptions: [{0}](options.md#{1})\n", function.full_name, anchor(function.full_name));
        }
        proof(&mut text, &function.proof);
    }
    added(&mut text, module.name);
    module.types.iter().for_each(|object| type_section(&mut text, object));
    text
}

fn helper_page(helper: &Helper) -> String {
    let mut text = format!("{NOTICE}# {}\n\n{}\n", helper.name, helper.doc);
    helper.functions.iter().for_each(|function| member(&mut text, function));
    helper.groups.iter().for_each(|group| group_section(&mut text, group));
    text
}

fn page_of_groups(page: &Page) -> String {
    let mut text = format!("{NOTICE}# {}\n\n{}\n", page.title, page.doc);
    page.groups.iter().for_each(|group| group_section(&mut text, group));
    text
}

/// What is said on a page behind its own names.
fn added(text: &mut String, page: &str) {
    ADDED.iter().filter(|(name, _)| *name == page).for_each(|(_, group)| group_section(text, group));
}

fn group_section(text: &mut String, group: &Group) {
    let _ = write!(text, "\n# {}\n\n{}\n", group.title, group.doc);
    if let Some(example) = group.example {
        let _ = write!(text, "\n```toml\n{example}\n```\n");
    }
    match group.shape {
        Shape::Keys => {
            text.push_str("\n| name | type and default | what |\n|---|---|---|\n");
            for Name { name, signature, doc, .. } in group.names {
                row(text, &[&format!("`{name}`"), &format!("`{signature}`"), doc]);
            }
        }
        Shape::Members => group.names.iter().for_each(|name| member(text, name)),
        Shape::Forms => {
            for Name { name, signature, doc, .. } in group.names {
                let _ = write!(text, "\n## {name}\n\n`{signature}`\n\n{doc}\n");
            }
        }
    }
}

fn member(text: &mut String, Name { name, signature, doc, .. }: &Name) {
    let joint = if signature.starts_with(['(', '{']) { "" } else { ": " };
    let _ = write!(text, "\n## {name}\n\n`{name}{joint}{signature}`\n\n{doc}\n");
}

fn type_section(text: &mut String, object: &Type) {
    let _ = write!(text, "\n# {}\n\n{}\n", object.name, object.doc);
    for Member { name, signature, doc, proof: shown } in object.members {
        let joint = if signature.starts_with('(') { "" } else { ": " };
        let _ = write!(text, "\n## {name}\n\n`{name}{joint}{signature}`\n\n{doc}\n");
        proof(text, shown);
    }
}

/// An example is shown; a test elsewhere is the program's own business.
fn proof(text: &mut String, proof: &Proof) {
    if let Proof::Example(script) = proof {
        let lines: Vec<&str> = script.split_inclusive(") ").map(str::trim_end).collect();
        let _ = write!(text, "\n```lua\n{}\n```\n", lines.join("\n"));
    }
}

fn options() -> String {
    let mut text = format!("{NOTICE}# Options\n\nUnknown options are errors that name the nearest one there is.\n");
    for constructor in CONSTRUCTORS {
        let full = format!("kumo.{constructor}");
        let _ = write!(text, "\n## {full}\n\n| option | type | default | what |\n|---|---|---|---|\n");
        for OptionInfo { name, kind, required, doc } in options_of(constructor) {
            let default = if *required { "required".to_owned() } else { shown(&default_of(constructor, name)) };
            let doc = doc.split_whitespace().collect::<Vec<_>>().join(" ") + &words(kind);
            row(&mut text, &[&format!("`{name}`"), &format!("`{}`", kind_text(kind)), &default, &doc]);
        }
    }
    text
}

/// A default as a script would say it; nothing where the option is absent.
fn shown(default: &Value) -> String {
    match default {
        Value::Null => String::new(),
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Object(table) if table.values().all(Value::is_null) => "none".to_owned(),
        // The options of a table within have a table of their own.
        Value::Object(_) => "its own defaults".to_owned(),
        plain => format!("`{plain}`"),
    }
}

/// The words that may stand there, where there are only some.
fn words(kind: &str) -> String {
    let plain = kind.strip_prefix("Option<").and_then(|rest| rest.strip_suffix('>')).unwrap_or(kind);
    let of = plain.strip_prefix("Vec<").and_then(|rest| rest.strip_suffix('>')).unwrap_or(plain);
    let words: Vec<String> = words_of(of).iter().map(|word| format!("`{word}`")).collect();
    if words.is_empty() { String::new() } else { format!(" {}.", words.join(", ")) }
}

/// A type of a field as operators know it.
fn kind_text(kind: &str) -> String {
    let plain = kind.strip_prefix("Option<").and_then(|rest| rest.strip_suffix('>')).unwrap_or(kind);
    match plain {
        "String" => "string".to_owned(),
        "bool" => "boolean".to_owned(),
        "usize" | "u8" | "u16" | "u32" | "u64" | "i32" | "i64" => "integer".to_owned(),
        "Map<String, Value>" => "table".to_owned(),
        "TextOrSource" => "string or KeySource".to_owned(),
        "BrokerServers" => "string or list<string>".to_owned(),
        other => {
            other.replace("Vec<", "list<").replace("BTreeMap<String, ", "map<string, ").replace("String", "string")
        }
    }
}

fn row(text: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

fn first_sentence(doc: &str) -> &str {
    doc.find(". ").map_or(doc, |end| &doc[..=end])
}

/// A doc that is a reason reads as a sentence all the same.
fn sentence(doc: &str) -> String {
    if doc.ends_with('.') {
        doc.to_owned()
    } else {
        format!("Accepted, its arguments are checked, and nothing is done: {doc}.")
    }
}

/// As renderers make them of headings.
fn anchor(heading: &str) -> String {
    heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, '_' | '-')).collect::<String>().to_lowercase()
}

const NOTICE: &str =
    "<!-- Made by `POSTRIDER_WRITE_REFERENCE=1 cargo test -p lua --test reference`; not to be edited. -->\n";
