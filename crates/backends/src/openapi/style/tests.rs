//! The style tables of OpenAPI 3.1 and the expansions of RFC 6570, section 3.2, that they are made of.

use super::*;

const EMPTY: &str = r#""""#;
const TEXT: &str = r#""blue""#;
const LIST: &str = r#"["blue","black","brown"]"#;
const MAP: &str = r#"{"R":100,"G":200,"B":150}"#;

fn how(style: Style, explode: bool) -> How<'static> {
    How {
        name: "color",
        style,
        explode,
        escape: Escape::Strict,
    }
}

fn path(how: How<'_>, json: &str) -> String {
    how.in_path(&Shape::of(json.as_bytes()))
}

fn query(how: How<'_>, json: &str) -> String {
    how.in_query(&Shape::of(json.as_bytes())).join("&")
}

#[test]
fn o_2_paths_by_the_style_table() {
    for (style, explode, json, expected) in [
        (Style::Matrix, false, EMPTY, ";color"),
        (Style::Matrix, false, TEXT, ";color=blue"),
        (Style::Matrix, false, LIST, ";color=blue,black,brown"),
        (Style::Matrix, false, MAP, ";color=R,100,G,200,B,150"),
        (Style::Matrix, true, EMPTY, ";color"),
        (Style::Matrix, true, TEXT, ";color=blue"),
        (
            Style::Matrix,
            true,
            LIST,
            ";color=blue;color=black;color=brown",
        ),
        (Style::Matrix, true, MAP, ";R=100;G=200;B=150"),
        (Style::Label, false, EMPTY, "."),
        (Style::Label, false, TEXT, ".blue"),
        (Style::Label, false, LIST, ".blue,black,brown"),
        (Style::Label, false, MAP, ".R,100,G,200,B,150"),
        (Style::Label, true, LIST, ".blue.black.brown"),
        (Style::Label, true, MAP, ".R=100.G=200.B=150"),
        (Style::Simple, false, EMPTY, ""),
        (Style::Simple, false, TEXT, "blue"),
        (Style::Simple, false, LIST, "blue,black,brown"),
        (Style::Simple, false, MAP, "R,100,G,200,B,150"),
        (Style::Simple, true, LIST, "blue,black,brown"),
        (Style::Simple, true, MAP, "R=100,G=200,B=150"),
    ] {
        assert_eq!(
            path(how(style, explode), json),
            expected,
            "{style:?} {explode} {json}"
        );
    }
}

#[test]
fn o_2_queries_by_the_style_table() {
    for (style, explode, json, expected) in [
        (Style::Form, false, EMPTY, "color="),
        (Style::Form, false, TEXT, "color=blue"),
        (Style::Form, false, LIST, "color=blue,black,brown"),
        (Style::Form, false, MAP, "color=R,100,G,200,B,150"),
        (Style::Form, true, TEXT, "color=blue"),
        (
            Style::Form,
            true,
            LIST,
            "color=blue&color=black&color=brown",
        ),
        (Style::Form, true, MAP, "R=100&G=200&B=150"),
        (
            Style::SpaceDelimited,
            false,
            LIST,
            "color=blue%20black%20brown",
        ),
        (
            Style::SpaceDelimited,
            false,
            MAP,
            "color=R%20100%20G%20200%20B%20150",
        ),
        (
            Style::SpaceDelimited,
            true,
            LIST,
            "color=blue&color=black&color=brown",
        ),
        (
            Style::PipeDelimited,
            false,
            LIST,
            "color=blue%7Cblack%7Cbrown",
        ),
        (
            Style::PipeDelimited,
            false,
            MAP,
            "color=R%7C100%7CG%7C200%7CB%7C150",
        ),
        (
            Style::TabDelimited,
            false,
            LIST,
            "color=blue%09black%09brown",
        ),
        (
            Style::DeepObject,
            true,
            MAP,
            "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150",
        ),
        (
            Style::DeepObject,
            true,
            r#"{"a":{"b":[1,2]}}"#,
            "color%5Ba%5D%5Bb%5D=1&color%5Ba%5D%5Bb%5D=2",
        ),
        // Undefined values are no parameters.
        (Style::Form, true, "[]", ""),
        (Style::Form, true, "{}", ""),
        (Style::Form, true, "null", ""),
    ] {
        assert_eq!(
            query(how(style, explode), json),
            expected,
            "{style:?} {explode} {json}"
        );
    }
}

#[test]
fn o_2_values_of_rfc_6570_are_escaped() {
    let simple = |json: &str| path(how(Style::Simple, false), json);
    assert_eq!(simple(r#""Hello World!""#), "Hello%20World%21");
    assert_eq!(simple(r#""50%""#), "50%25");
    assert_eq!(simple(r#"";,.""#), "%3B%2C.");
    assert_eq!(simple(r#""/foo/bar?a#b""#), "%2Ffoo%2Fbar%3Fa%23b");
    assert_eq!(simple(r#""\r\nX: y""#), "%0D%0AX%3A%20y");
    assert_eq!(simple(r#""ü""#), "%C3%BC");
    let reserved = How {
        escape: Escape::Reserved,
        ..how(Style::Form, true)
    };
    for (json, expected) in [
        (r#""/foo/bar""#, "color=/foo/bar"),
        (r#""Hello World!""#, "color=Hello%20World!"),
        (r#""50%""#, "color=50%25"),
        (r#""%41%zz""#, "color=%41%25zz"),
        // It would end the query.
        (r##""a#b""##, "color=a%23b"),
    ] {
        assert_eq!(query(reserved, json), expected);
    }
    let form = How {
        escape: Escape::Form,
        ..how(Style::Form, true)
    };
    assert_eq!(query(form, r#""a b+c&d~""#), "color=a+b%2Bc%26d%7E");
}

#[test]
fn o_2_numbers_keep_their_digits() {
    let number = "12345678901234567890123.10";
    assert_eq!(path(how(Style::Simple, false), number), number);
    assert_eq!(
        query(how(Style::Form, false), r#"[{"a":1.10},"x"]"#),
        "color=%7B%22a%22%3A1.10%7D,x"
    );
}
