//! The JSON report, held against its schema.

use serde_json::Value;

/// The document, after the schema has had its say.
pub(crate) fn json(text: &str) -> Value {
    let document: Value = serde_json::from_str(text).unwrap();
    let schema = include_str!("../../../../schema/report-v1.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> = validator
        .iter_errors(&document)
        .map(|fault| fault.to_string())
        .collect();
    assert_eq!(faults, Vec::<String>::new());
    document
}
