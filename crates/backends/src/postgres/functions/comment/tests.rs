use super::*;

fn parse(text: &str) -> Comment {
    Comment::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
}

#[test]
fn lines_without_an_annotation_are_the_description() {
    for (text, wanted) in [
        ("", ""),
        ("  Adds an order.  ", "Adds an order."),
        (
            "One.\r\n\r\nTwo, to a@b.example.\n@tool",
            "One.\n\nTwo, to a@b.example.",
        ),
        ("@tool\nAfter it.", "After it."),
        (
            "Before.\n@param a first\n  second\n\nBehind.",
            "Before.\n\nBehind.",
        ),
        ("\n\n  @tool\n\n", ""),
    ] {
        assert_eq!(parse(text).description, wanted, "{text:?}");
    }
}

#[test]
fn every_annotation_is_read() {
    let text = "Orders.
        @tool place_order
        @resource shop://orders/{id} order
        @prompt ask.for-order
        @route get /orders/{id}
        @route DELETE /orders/{id}
        @title An order
        @tags a, b,,c d
        @param id the number
           of the order
        @param note
        @bind tenant auth.tenant_id
        @bind who   auth.user_id
        @auth
        @isolation SERIALIZABLE
        @read_only
        @deferrable
        @idempotent false
        @destructive false
        @timeout 2min
        @max_rows 100
        @mime text/markdown; charset=utf-8";
    let wanted = Comment {
        description: "Orders.".to_owned(),
        tool: Some(Some("place_order".to_owned())),
        resource: Some(("shop://orders/{id}".to_owned(), Some("order".to_owned()))),
        prompt: Some(Some("ask.for-order".to_owned())),
        routes: ["GET", "DELETE"]
            .map(|verb| RouteLine {
                verb: verb.to_owned(),
                path: "/orders/{id}".to_owned(),
            })
            .into(),
        title: Some("An order".to_owned()),
        tags: ["a", "b", "c d"].map(str::to_owned).into(),
        params: vec![
            ("id".to_owned(), "the number of the order".to_owned()),
            ("note".to_owned(), String::new()),
        ],
        binds: vec![
            ("tenant".to_owned(), Source::TenantId),
            ("who".to_owned(), Source::UserId),
        ],
        needs_identity: true,
        isolation: Some(Isolation::Serializable),
        is_read_only: true,
        is_deferrable: true,
        idempotent: Some(false),
        destructive: Some(false),
        timeout: Some(Duration::from_secs(120)),
        max_rows: Some(100),
        mime: Some("text/markdown; charset=utf-8".to_owned()),
        is_ignored: false,
        has_annotations: true,
    };
    let read = parse(text);
    assert_eq!(read, wanted);
    assert!(read.is_marked());
    assert_eq!(
        (read.about("id"), read.bound("who")),
        (Some("the number of the order"), Some(Source::UserId))
    );
    // Each word of the table is one that was read here, but for the one that stands alone.
    for word in WORDS.iter().filter(|word| **word != "ignore") {
        assert!(text.contains(&format!("@{word}")), "{word}");
    }
    assert!(parse("@ignore").is_ignored);
}

#[test]
fn mistakes_say_what_is_wrong() {
    for (text, wanted) in [
        ("@Tool", "unknown word @Tool (known are @tool, @resource"),
        ("@too", "unknown word @too "),
        ("@", "unknown word @ "),
        ("@omit all", "unknown word @omit "),
        ("@tool\n@tool", "says @tool twice"),
        ("@auth\n@auth", "says @auth twice"),
        ("@tool two words", "must be a name of at most 128"),
        ("@tool é", "must be a name"),
        ("@resource", "must be a URI"),
        ("@resource orders", "must be a URI"),
        ("@resource 1x://y", "must be a URI"),
        ("@resource x:", "must be a URI"),
        ("@route /orders", "GET, POST, PUT, PATCH or DELETE"),
        ("@route HEAD /orders", "GET, POST, PUT, PATCH or DELETE"),
        ("@route GET orders", "begins with /"),
        ("@route GET /orders?x=1", "begins with /"),
        ("@route GET /a\n@route GET /a", "different from the others"),
        ("@title", "must be a text"),
        ("@tags ,", "names separated by commas"),
        ("@param", "the name of a parameter"),
        ("@param a x\n@param a y", "the name of a parameter, once"),
        ("@bind a", "auth.user_id"),
        ("@bind a auth.user", "auth.user_id"),
        ("@bind a user_id", "auth.user_id"),
        ("@bind a auth.role\n@bind a auth.token", "once"),
        ("@auth please", "must be without a value"),
        (
            "@isolation high",
            "read committed, repeatable read or serializable",
        ),
        ("@idempotent yes", "true, false or nothing"),
        ("@timeout", "such as 500ms"),
        ("@timeout 0s", "such as 500ms"),
        ("@timeout 5 h", "such as 500ms"),
        ("@timeout 99999999999999999999s", "such as 500ms"),
        ("@timeout 25000min", "at most a day"),
        ("@max_rows 0", "from 1 to"),
        ("@max_rows -1", "from 1 to"),
        ("@mime text", "a media type"),
        ("@ignore\n@tool", "@ignore stands alone"),
        ("@read_only\n@destructive", "@read_only and @destructive"),
        ("@param a x\n@bind a auth.role", "that @bind hides"),
        ("@deferrable", "needs @isolation serializable"),
    ] {
        let why = Comment::parse(text).expect_err(text).to_string();
        assert!(why.contains(wanted), "{text:?}: {why}");
    }
}
