//! The OpenAPI document of what the server answers: whole, and true to itself.

use serde_json::Value;
use std::collections::BTreeSet;

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            found.push((path.clone(), method.to_ascii_uppercase(), operation.clone()));
        }
    }
    found
}

#[test]
fn every_operation_is_whole() {
    let document = admin::openapi();
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let what = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].to_string()), "{what}: its id is another's");
        let about = operation["summary"].as_str().expect("a summary");
        assert!(about.ends_with('.') && !about.contains('\n'), "{what}: {about}");
        let statuses: Vec<&String> = operation["responses"].as_object().expect("answers").keys().collect();
        assert!(statuses.iter().any(|status| ["200", "101"].contains(&status.as_str())), "{what}: {statuses:?}");
        let who = operation["x-who"].as_str().expect("who may");
        let known = ["anybody", "trusted hosts", "trusted hosts, and with credentials"];
        assert!(known.contains(&who), "{what}: no built-in rule is about it: {who}");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(parameter["description"].is_string(), "{what}: {parameter}");
        }
        let body = &operation["requestBody"]["content"];
        assert_eq!(body.is_object(), !operation["requestBody"].is_null(), "{what}");
        for (name, member) in body["application/json"]["schema"]["properties"].as_object().into_iter().flatten() {
            assert!(member["description"].is_string(), "{what}: {name} says nothing of itself");
        }
    }
    assert!(ids.len() > 40 && !document["paths"]["/metrics"]["get"].is_null(), "{ids:?}");
}

#[test]
fn references_lead_somewhere_and_names_are_not_shared() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Array(list) => list.iter().for_each(|one| references(one, found)),
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|one| references(one, found));
            }
            _ => {}
        }
    }
    let (document, mut found) = (admin::openapi(), BTreeSet::new());
    references(&document, &mut found);
    assert!(found.len() > 20);
    for reference in &found {
        let pointer = reference.strip_prefix('#').expect("in this document");
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    for (name, schema) in schemas {
        assert!(!name.ends_with(|c: char| c.is_ascii_digit()), "{name}: two types have this name");
        assert!(found.contains(&format!("#/components/schemas/{name}")), "{name} is nowhere used: {schema}");
    }
}
