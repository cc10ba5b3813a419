//! The tool of a table: what its calls may ask for, and what comes back.
//!
//! Not here: what a call's arguments select (`query`).

use serde_json::{Map, Value, json};

use super::{Column, PAGE, Table};

/// The tool of a table.
pub(super) fn definition(
    key: &str,
    name: &str,
    comment: Option<&str>,
    table: &Table,
    rows_max: usize,
) -> String {
    let mut text = comment.map_or_else(|| format!("Rows of {name}."), str::to_owned);
    text.push_str(" Conditions in `where` must all hold.");
    if table.is_keyed() {
        text.push_str(" `next` of an answer is the `after` of the next page.");
    }
    let conditions: Map<String, Value> = table.columns.iter().map(condition).collect();
    let columns: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
    let comparable = table.columns.iter().filter(|column| column.is_comparable);
    let orders: Vec<String> = comparable
        .flat_map(|column| [column.name.clone(), format!("-{}", column.name)])
        .collect();
    let mut properties = Map::new();
    properties.insert("where".to_owned(), json!({
        "type": "object",
        "description": "A value that a column must equal, null, or operators with their values.",
        "properties": conditions,
        "additionalProperties": false,
    }));
    properties.insert(
        "columns".to_owned(),
        json!({
            "type": "array", "items": {"enum": columns}, "minItems": 1, "uniqueItems": true,
            "description": "The columns that are wanted; left out: all.",
        }),
    );
    if !orders.is_empty() {
        properties.insert(
            "order".to_owned(),
            json!({
                "type": "array", "items": {"enum": orders},
                "description": "Columns to order by; with a minus in front, the greatest first.",
            }),
        );
    }
    properties.insert(
        "limit".to_owned(),
        json!({
            "type": "integer", "minimum": 1, "maximum": rows_max, "default": PAGE.min(rows_max),
            "description": "Rows of a page.",
        }),
    );
    if table.is_keyed() {
        properties.insert(
            "after".to_owned(),
            json!({
                "type": "string", "description": "`next` of the page before.",
            }),
        );
    }
    let rows: Map<String, Value> = table
        .columns
        .iter()
        .map(|column| (column.name.clone(), column.schema.clone()))
        .collect();
    let row = json!({"type": "object", "properties": rows});
    json!({
        "name": key,
        "description": text,
        "inputSchema": {"type": "object", "properties": properties, "additionalProperties": false},
        "outputSchema": {
            "type": "object",
            "properties": {
                "rows": {"type": "array", "items": row},
                "truncated": {"type": "boolean", "description": "There are more rows."},
                "next": {"type": "string", "description": "`after` of the next page."},
            },
            "required": ["rows", "truncated"],
        },
        "annotations": {"readOnlyHint": true},
    })
    .to_string()
}

/// What the conditions on a column may be.
fn condition(column: &Column) -> (String, Value) {
    let truth = json!({"type": "boolean"});
    if !column.is_comparable {
        let operators = json!({
            "type": ["object", "null"], "properties": {"is_null": truth}, "additionalProperties": false,
        });
        return (column.name.clone(), operators);
    }
    let value = match &column.schema {
        // A condition does not repeat what the column means.
        Value::Object(schema) => {
            let mut schema = schema.clone();
            schema.remove("description");
            Value::Object(schema)
        }
        other => other.clone(),
    };
    let mut operators = Map::new();
    for name in ["eq", "ne", "lt", "lte", "gt", "gte"] {
        operators.insert(name.to_owned(), value.clone());
    }
    operators.insert("in".to_owned(), json!({"type": "array", "items": value}));
    for name in ["like", "ilike"] {
        operators.insert(name.to_owned(), json!({"type": "string"}));
    }
    operators.insert("is_null".to_owned(), truth);
    let operators = json!({
        "type": "object", "properties": operators, "additionalProperties": false, "minProperties": 1,
    });
    (
        column.name.clone(),
        json!({"anyOf": [value, {"type": "null"}, operators]}),
    )
}
