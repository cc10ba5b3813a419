use proptest::prelude::*;

use super::*;

fn parameter(name: &str, kind: &str, form: Form) -> Parameter {
    Parameter {
        name: name.to_owned(),
        sql: format!("\"pg_catalog\".\"{kind}\""),
        form,
        has_default: name.starts_with("opt"),
        is_variadic: name == "more",
        bound: (name == "who").then_some(Source::UserId),
    }
}

fn callable(parameters: Vec<Parameter>, returns: Returns, is_set: bool) -> Callable {
    Callable {
        function: "\"api\".\"f\"".to_owned(),
        parameters,
        returns,
        is_set,
    }
}

const VALUE: Returns = Returns::Value { is_bytes: false };

#[test]
fn only_arguments_that_are_given_are_in_the_call() {
    let all = callable(
        vec![
            parameter("a", "text", Form::Plain),
            parameter("opt", "int4", Form::Whole),
            parameter("who", "uuid", Form::Plain),
            parameter("more", "_bytea", Form::Plain),
        ],
        VALUE,
        false,
    );
    let who = "\"who\" => CAST(CASE WHEN pg_catalog.current_setting('auth.user_id', true) OPERATOR(pg_catalog.<>) '' \
        THEN pg_catalog.current_setting('auth.user_id', true) END AS \"pg_catalog\".\"uuid\")";
    assert_eq!(
        all.sql(&[true, false, false, false], None),
        format!(
            "SELECT pg_catalog.to_json(\"api\".\"f\"(\"a\" => a.\"a\", {who}, \
            VARIADIC \"more\" => CAST('{{}}' AS \"pg_catalog\".\"_bytea\")))::pg_catalog.text \
            FROM pg_catalog.json_to_record($1) AS a(\"a\" \"pg_catalog\".\"text\")"
        )
    );
    assert_eq!(
        all.sql(&[true, true, false, true], None),
        format!(
            "SELECT pg_catalog.to_json(\"api\".\"f\"(\"a\" => a.\"a\", \"opt\" => CAST(a.\"opt\" AS \"pg_catalog\".\"int4\"), {who}, \
            VARIADIC \"more\" => a.\"more\"))::pg_catalog.text FROM pg_catalog.json_to_record($1) \
            AS a(\"a\" \"pg_catalog\".\"text\", \"opt\" \"pg_catalog\".\"numeric\", \"more\" \"pg_catalog\".\"_bytea\")"
        )
    );
    assert!(all.takes_arguments(&[false, true, false, false]));
    assert!(!all.takes_arguments(&[false, false, true, false]));
    let bare = callable(vec![], VALUE, false);
    assert_eq!(
        bare.sql(&[], None),
        "SELECT pg_catalog.to_json(\"api\".\"f\"())::pg_catalog.text"
    );
}

#[test]
fn what_is_returned_decides_about_the_statement() {
    let column = |name: &str, is_bytes| Column {
        name: name.to_owned(),
        is_bytes,
    };
    let bytes = |value: &str| {
        format!(
            "pg_catalog.translate(pg_catalog.encode({value}, 'base64'), pg_catalog.chr(10), '')"
        )
    };
    let call = "\"api\".\"f\"()";
    for (returns, is_set, wanted) in [
        (
            Returns::Nothing,
            false,
            format!("SELECT CAST(NULL AS pg_catalog.text) FROM {call}"),
        ),
        (
            Returns::Value { is_bytes: true },
            false,
            format!(
                "SELECT pg_catalog.to_json({})::pg_catalog.text",
                bytes(call)
            ),
        ),
        (
            VALUE,
            true,
            format!("SELECT pg_catalog.to_json(f.v)::pg_catalog.text FROM {call} AS f(v) LIMIT 6"),
        ),
        (
            Returns::Single(column("n", false)),
            false,
            format!(
                "SELECT pg_catalog.to_json((SELECT f_ FROM (SELECT {call} AS \"n\") AS f_))::pg_catalog.text"
            ),
        ),
        (
            Returns::Single(column("f", true)),
            true,
            format!(
                "SELECT pg_catalog.to_json((SELECT ff_ FROM (SELECT {} AS \"f\") AS ff_))::pg_catalog.text FROM {call} AS f(v) LIMIT 6",
                bytes("f.v")
            ),
        ),
        (
            Returns::Columns(vec![column("f", false), column("ff__", false)]),
            true,
            format!("SELECT pg_catalog.to_json(fff)::pg_catalog.text FROM {call} AS fff LIMIT 6"),
        ),
        (
            Returns::Columns(vec![column("a", false)]),
            false,
            format!("SELECT pg_catalog.to_json({call})::pg_catalog.text"),
        ),
        (
            Returns::Columns(vec![column("a", false), column("b", true)]),
            false,
            format!(
                "SELECT pg_catalog.to_json((SELECT f_ FROM (SELECT f.\"a\" AS \"a\", {} AS \"b\") AS f_))::pg_catalog.text FROM {call} AS f",
                bytes("f.\"b\"")
            ),
        ),
    ] {
        assert_eq!(
            callable(vec![], returns.clone(), is_set).sql(&[], Some(6)),
            wanted,
            "{returns:?}"
        );
    }
    let set = callable(vec![parameter("f", "text", Form::Bytes)], VALUE, true);
    assert_eq!(
        set.sql(&[true], None),
        "SELECT pg_catalog.to_json(f.v)::pg_catalog.text FROM pg_catalog.json_to_record($1) AS a(\"f\" \"pg_catalog\".\"text\") \
        CROSS JOIN LATERAL \"api\".\"f\"(\"f\" => CAST(pg_catalog.decode(a.\"f\", 'base64') AS \"pg_catalog\".\"text\")) AS f(v)"
    );
}

/// The name of a quoted identifier, and what follows it, as PostgreSQL reads it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut name = String::new();
    loop {
        let (part, behind) = rest.split_once('"')?;
        name.push_str(part);
        match behind.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, behind)),
        }
    }
}

proptest! {
    #[test]
    fn any_name_is_one_identifier(name in "(\\PC|\"){1,63}", behind in "[^\"]{0,9}") {
        let text = format!("{}{behind}", quoted(&name));
        prop_assert_eq!(unquoted(&text), Some((name, behind.as_str())));
    }
}
