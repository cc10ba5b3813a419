use super::*;

const SPEC: &str = r#"
openapi: 3.0.3
info: {title: Shop, version: 2, description: Sells things.}
servers: [{url: 'https://{region}.example/v1/', variables: {region: {default: eu, enum: [eu, us]}}}]
paths:
  /items:
    parameters: [{name: trace, in: query, schema: {type: string}}]
    get:
      operationId: list items!
      summary: Lists items
      tags: [items]
      responses: {200: {description: ok, content: {application/json: {schema: {type: array, items: {type: integer}}}}}}
    post:
      operationId: list items!
      requestBody: {required: true, content: {application/json: {schema: {type: object, properties: {id: {type: integer, readOnly: true}, name: {type: string}}}}}}
      responses:
        201:
          description: made
          content: {application/json: {schema: {$ref: '#/components/schemas/Item'}}}
          links: {get: {operationId: getItem, parameters: {id: '$response.body#/id'}}}
  /items/{id}:
    delete: {deprecated: true, responses: {204: {description: gone}}}
    get:
      operationId: getItem
      parameters: [{name: id, in: path, required: true, schema: {type: string, pattern: '(['}}]
      responses: {200: {description: ok, content: {application/json: {schema: {$ref: '#/components/schemas/Item'}}}}}
  /broken: {get: {parameters: [{name: x, in: body, required: true}]}}
  /gone: {$ref: '#/nowhere'}
components: {schemas: {Item: {type: object, properties: {id: {type: integer}, secret: {type: string, writeOnly: true}}}}}
"#;

fn wishes() -> Wishes {
    Wishes {
        base: None,
        variables: BTreeMap::new(),
        auth: ApiAuth::default(),
        selection: Selection::new(&[], &[]),
        operations_max: 100,
        output_schemas: true,
    }
}

fn made(text: &str, wishes: &Wishes) -> Api {
    let root = super::super::document::parse(text.as_bytes()).expect("a document");
    let location = Location::Url(Place::of("https://docs.example/a/spec.yaml").expect("a URL"));
    api(root, &location, wishes).expect("an API")
}

fn shown(api: &Api) -> BTreeMap<String, Value> {
    let tools = api.offer.tools.iter();
    tools
        .map(|tool| {
            (
                tool.key.clone(),
                serde_json::from_slice(&tool.raw).expect("JSON"),
            )
        })
        .collect()
}

#[test]
fn o_4_operations_become_tools() {
    let api = made(SPEC, &wishes());
    let tools = shown(&api);
    let names: Vec<&str> = tools.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["delete_items_id", "getItem", "list_items", "list_items_2"]
    );
    let list = &tools["list_items"];
    assert_eq!(list["title"], "Lists items");
    assert_eq!(
        list["annotations"],
        json!({"readOnlyHint": true, "openWorldHint": true, "idempotentHint": true})
    );
    assert_eq!(list["_meta"]["tags"], json!(["items"]));
    assert_eq!(
        list["inputSchema"]["properties"]["trace"],
        json!({"type": "string"})
    );
    assert_eq!(
        list["outputSchema"],
        json!({"type": "object", "properties": {"result": {"type": "array", "items": {"type": "integer"}}}, "required": ["result"]})
    );
    let post = &tools["list_items_2"];
    assert_eq!(post["inputSchema"]["required"], json!(["body"]));
    assert_eq!(
        post["inputSchema"]["properties"]["body"]["properties"],
        json!({"name": {"type": "string"}})
    );
    assert_eq!(
        post["outputSchema"],
        json!({"type": "object", "properties": {"id": {"type": "integer"}}})
    );
    assert!(
        post["description"]
            .as_str()
            .expect("words")
            .contains("Then: getItem with id = answer/id")
    );
    let delete = &tools["delete_items_id"];
    assert_eq!(delete["annotations"]["destructiveHint"], true);
    assert_eq!(delete["annotations"]["readOnlyHint"], false);
    assert!(
        delete["description"]
            .as_str()
            .expect("words")
            .contains("Deprecated.")
    );
    assert_eq!(delete["inputSchema"]["required"], json!(["id"]));
    assert!(delete["outputSchema"].is_null());
    // Its pattern is none, so it checks the rest.
    assert_eq!(
        tools["getItem"]["inputSchema"]["properties"]["id"],
        json!({"type": "string"})
    );
    for tool in &api.offer.tools {
        assert_eq!(tool.schema.examine(), None, "{}", tool.key);
    }
    assert_eq!(
        api.home.as_ref().map(ToString::to_string).as_deref(),
        Some("https://eu.example")
    );
    let notices = api.notices.kept.join("\n");
    for words in [
        "GET /broken: left out",
        "/gone: its reference",
        "`getItem`: its patterns",
    ] {
        assert!(notices.contains(words), "{notices}");
    }
}

#[test]
fn o_3_definitions_of_several_arguments_stay_apart() {
    let text = r##"{"openapi":"3.1.0","servers":[{"url":"/"}],"paths":{"/a":{"post":{"operationId":"a",
        "parameters":[{"name":"q","in":"query","schema":{"$ref":"#/one/T"}}],
        "requestBody":{"content":{"application/json":{"schema":{"$ref":"#/two/T"}}}}}}},
        "one":{"T":{"type":"object","properties":{"t":{"$ref":"#/one/T"}}}},
        "two":{"T":{"type":"array","items":{"$ref":"#/two/T"}}}}"##;
    let api = made(text, &wishes());
    assert_eq!(api.offer.tools[0].schema.examine(), None);
    let input = &shown(&api)["a"]["inputSchema"];
    let names: Vec<&String> = input["$defs"]
        .as_object()
        .expect("definitions")
        .keys()
        .collect();
    assert_eq!(names, ["T", "body.T"]);
    assert_eq!(
        input["properties"]["body"]["items"]["$ref"],
        "#/$defs/body.T"
    );
    assert_eq!(input["$defs"]["body.T"]["items"]["$ref"], "#/$defs/body.T");
    assert_eq!(
        input["properties"]["q"]["properties"]["t"]["$ref"],
        "#/$defs/T"
    );
}

#[test]
fn o_4_servers_are_chosen_and_resolved() {
    let of = |servers: &str, wishes: &Wishes| {
        let text = format!("openapi: 3.1.0\n{servers}\npaths: {{/a: {{get: {{operationId: a}}}}}}");
        let api = made(&text, wishes);
        api.operations
            .get("a")
            .map(|operation| format!("{}{}", operation.base.origin, operation.base.target))
    };
    let is = |servers: &str, place: Option<&str>| {
        assert_eq!(of(servers, &wishes()).as_deref(), place, "{servers}")
    };
    is("", Some("https://docs.example"));
    is("servers: [{url: /v2/}]", Some("https://docs.example/v2"));
    is("servers: [{url: v2}]", Some("https://docs.example/a/v2"));
    is(
        "servers: [{url: '//other.example/x'}]",
        Some("https://other.example/x"),
    );
    is(
        "servers: [{url: 'ftp://x/'}, {url: 'http://y.example:8080'}]",
        Some("http://y.example:8080"),
    );
    is("servers: [{url: 'https://user:pw@x.example/'}]", None);
    let region =
        "servers: [{url: 'https://{r}.example', variables: {r: {default: eu, enum: [eu, us]}}}]";
    is(region, Some("https://eu.example"));
    let with = |value: &str| Wishes {
        variables: [("r".to_owned(), value.to_owned())].into(),
        ..wishes()
    };
    assert_eq!(
        of(region, &with("us")).as_deref(),
        Some("https://us.example")
    );
    assert_eq!(of(region, &with("evil.example/")), None);
    let base = Wishes {
        base: Place::of("http://127.0.0.1:1/own"),
        ..wishes()
    };
    assert_eq!(of(region, &base).as_deref(), Some("http://127.0.0.1:1/own"));
}

#[test]
fn o_9_a_description_of_any_size_makes_a_bounded_number_of_tools() {
    let wishes = Wishes {
        operations_max: 2,
        ..wishes()
    };
    let api = made(SPEC, &wishes);
    assert_eq!(api.offer.tools.len(), 2);
    let cut = api.offer.cut[0].as_deref().expect("a notice");
    assert!(cut.contains("3 operations more than the 2"), "{cut}");
    let none = made("openapi: 3.1.0", &self::wishes());
    assert_eq!(
        none.notices.kept,
        ["no operation of the description is chosen"]
    );
}

#[test]
fn o_5_tools_say_when_a_credential_is_missing_or_not_sent() {
    let text = r#"
openapi: 3.1.0
servers: [{url: 'https://api.example'}]
security: [{key: []}]
paths:
  /a: {get: {operationId: a}}
  /b: {get: {operationId: b, servers: [{url: 'https://other.example'}]}}
components: {securitySchemes: {key: {type: apiKey, in: header, name: X-Key}}}
"#;
    let notices = made(text, &wishes()).notices.kept.join("\n");
    assert!(
        notices.contains("`a` is called without a credential"),
        "{notices}"
    );
    let key = sentinel_config::Secret::from_variable("K", "v");
    let auth = ApiAuth {
        api_key: Some(key),
        ..ApiAuth::default()
    };
    let notices = made(text, &Wishes { auth, ..wishes() }).notices.kept;
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("https://other.example is not where the API is"));
}
