//! What the report knows of the machine and the run, whole: every field of its JSON, by its name there.
//! Nothing is chosen here, so that nothing is missing when it is asked for later.

use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

use super::plain;
use crate::report::Report;

pub(super) fn facts(report: &Report) -> Markup {
    let parts = [
        ("environment", value(&report.environment)),
        ("evidence", value(&report.evidence)),
        ("placement", value(&report.placement)),
        ("clock", value(&report.clock)),
        ("peer", value(&report.peer)),
        ("same_host", value(&report.same_host)),
        ("boot_id", value(&report.boot_id)),
        ("seed", value(&report.seed)),
    ];
    let mut facts = Vec::new();
    for (name, value) in &parts {
        flatten(name, value, &mut facts);
    }
    html! {
        div.wide {
            table.facts {
                @for (name, value) in &facts {
                    tr { th scope="row" { (plain(name)) } td { (plain(value)) } }
                }
            }
        }
    }
}

fn value(part: &impl Serialize) -> Value {
    // A part of a report that was read or measured is a value.
    serde_json::to_value(part).unwrap_or(Value::Null)
}

/// A line for each leaf, named by the way to it; short lists stay on one line.
fn flatten(name: &str, value: &Value, facts: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                flatten(&format!("{name}.{field}"), value, facts);
            }
        }
        Value::Array(items) if items.iter().any(|item| item.is_object()) => {
            for (index, value) in items.iter().enumerate() {
                flatten(&format!("{name}[{index}]"), value, facts);
            }
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(leaf).collect();
            facts.push((name.to_owned(), items.join(", ")));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            facts.push((name.to_owned(), leaf(value)));
        }
    }
}

fn leaf(value: &Value) -> String {
    match value {
        Value::Null => "unknown".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
