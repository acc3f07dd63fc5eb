//! Templates against what WireMock makes of them.

use super::*;
use crate::draw::Stream;
use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::json;
use std::net::IpAddr;
use std::time::Duration;

fn draws(id: u64) -> Draws {
    Draws::new(Stream::Body, 1, id)
}

fn rendered_for(template: &str, variables: &[(&str, &str)], id: u64) -> String {
    let parameters =
        json!({"name": "Ada", "count": 3, "deep": {"list": [true, 1.5, null]}, "lower": "5"});
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("host", "example.com:8080"),
        ("x-foo", "one"),
        ("x-foo", "two"),
        ("cookie", "a=1; session=\"s-1\"; a=2"),
        ("x-latin", "caf\u{e9}"),
    ] {
        let bytes: Vec<u8> = value
            .chars()
            .map(|char| u8::try_from(char).unwrap())
            .collect();
        headers.append(
            HeaderName::from_static(name),
            HeaderValue::from_bytes(&bytes).unwrap(),
        );
    }
    let asked = RequestView {
        method: &Method::POST,
        target: "/the/entire%20path//x?q=1&q=%C3%A4+b&r=&q=3&9=nine",
        headers: &headers,
        body: b"<\"body\">&",
        client: IpAddr::from([127, 0, 0, 1]),
    };
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_696_647_845_067);
    let occasion = Occasion {
        asked: &asked,
        path_variables: variables,
        now,
        scheme: Scheme::Http,
    };
    match Template::compile(template, Some(&parameters)) {
        Err(fault) => format!("refused: {fault}"),
        Ok(template) => match template.render(&occasion, &mut draws(id)) {
            Ok(text) => text,
            Err(failed) => format!("failed: {failed}"),
        },
    }
}

fn rendered(template: &str) -> String {
    rendered_for(template, &[], 1)
}

#[test]
fn parts_of_the_request_are_filled_in() {
    for (template, expected) in [
        (
            "{{request.path.[-1]}}{{request.path.name}}{{request.path.[0].x}}",
            "",
        ),
        (
            "{{request.query.q}}|{{request.query.q.[1]}}|{{request.query.q.2}}|{{request.query.q.[3]}}",
            "1|ä b|3|",
        ),
        (
            "{{request.query.q.first}}|{{request.query.q.last}}|{{request.query.q.[-1]}}",
            "1|3|",
        ),
        (
            "{{request.query.9}}|{{request.query.r}}|{{request.query.none}}|{{request.query.q.[-9]}}",
            "nine|||",
        ),
        ("{{request.bodyAsBase64}}", "PCJib2R5Ij4m"),
        (
            "{{request/method}}{{unknown.more}}{{request.unknown}}",
            "POST",
        ),
    ] {
        assert_eq!(rendered(template), expected, "{template}");
    }
}

#[test]
fn variables_of_the_path_come_first_and_leave_the_path_encoded() {
    let variables = [("id", "not this"), ("id", "4%202"), ("1", "one")];
    let template = "{{request.path.id}}|{{request.path.0}}|{{request.path.1}}|{{request.path.[2]}}|{{request.path}}";
    assert_eq!(
        rendered_for(template, &variables, 1),
        "4%202|the|one|x|/the/entire%20path//x"
    );
}

#[test]
fn what_is_known_beforehand_is_filled_in_beforehand() {
    let parameters = json!({"name": "Ada", "deep": {"list": [true, 1.5, null]}});
    let template = "{{! who }}{{parameters.name}} {{parameters.deep.list.[0]}} {{parameters.deep.list.[1]}}\
                    {{parameters.deep.list.[2]}}{{parameters.none.none}}{{missing.one}}";
    let template = Template::compile(template, Some(&parameters)).unwrap();
    assert_eq!(template.constant(), Some("Ada true 1.5"));
    assert_eq!(Template::compile("", None).unwrap().constant(), Some(""));
    assert_eq!(
        Template::compile("{{request.url}}", None)
            .unwrap()
            .constant(),
        None
    );
}

#[test]
fn helpers_are_applied() {
    for (template, expected) in [
        ("{{now}}", "2023-10-07T03:04:05Z"),
        ("{{date format='unix'}}", "1696647845"),
        (
            "{{math 1 '+' 2}} {{math request.query.q '*' parameters.count}} {{math 15 '/' 2}}",
            "3 3 8",
        ),
        ("{{math (math 1 '+' 2) 'x' (math 1.5 '-' 1)}}", "1.5"),
        ("{{math (now format='epoch') '+' 1}}", "1696647845068"),
        (
            "{{math 1.5 '+' 1}} {{math 10.0 '/' 3}} {{math 0.1 '+' 0.2}} {{math -5 '/' 2}}",
            "2.5 3.3 0.3 -3",
        ),
        (
            "{{randomInt lower=5 upper=6}} {{randomInt lower=parameters.lower upper=6}}",
            "5 5",
        ),
        ("{{randomInt lower=(math 5 '+' 1) upper=7}}", "6"),
        ("{{randomValue length=0}}", ""),
    ] {
        assert_eq!(rendered(template), expected, "{template}");
    }
}

#[test]
fn what_looks_random_is_a_function_of_the_draws() {
    let template = "{{randomInt lower=1 upper=1000}} {{randomValue length=8 type='HEXADECIMAL' uppercase=true}} \
                    {{pickRandom 'a' 'b' request.method}} {{pickRandom request.query.q}} \
                    {{randomValue type='UUID'}}";
    let texts: Vec<String> = (0..50).map(|id| rendered_for(template, &[], id)).collect();
    assert_eq!(
        texts,
        (0..50)
            .map(|id| rendered_for(template, &[], id))
            .collect::<Vec<_>>()
    );
    let mut different = texts.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), texts.len());
    let picked = |pick: &str| texts.iter().any(|text| text.contains(pick));
    assert!(
        picked(" a ") && picked(" b ") && picked(" POST ") && picked(" ä b "),
        "{texts:?}"
    );
}

#[test]
fn requests_that_a_helper_cannot_work_with_fail() {
    for template in [
        "{{math request.query.none '+' 1}}",
        "{{math 1 '/' request.query.r}}",
        "{{randomInt lower=request.path.[0]}}",
        "{{randomInt lower=2 upper=2}}",
        "{{randomInt upper=request.query.none}}",
        "{{jsonPath '{' '$.a'}}",
    ] {
        let failed = rendered(template);
        assert!(failed.starts_with("failed: "), "{template}: {failed}");
    }
}

#[test]
fn what_is_not_served_is_told_from_what_is_not_right() {
    let refusal =
        |template: &str| Template::compile(template, Some(&json!({"list": [1]}))).unwrap_err();
    for template in [
        "{{#if request.body}}x{{/if}}",
        "{{trim}}",
        "{{date request.body}}",
        "{{request}}",
        "{{request.id}}",
        "{{request.requestLine}}",
        "{{pickRandom 1 2 count=1}}",
        "{{parameters.list}}",
        "{{this.request}}",
        "{{now format=request.body}}",
        "{{else}}",
        "{{math (request.path) '+' 1}}",
    ] {
        let refusal = refusal(template);
        assert!(
            matches!(refusal, ValueProblem::Unsupported(_)),
            "{template}: {refusal}"
        );
    }
    for template in [
        "{{jsonPath request.body}}",
        "{{}}",
        "{{'text'}}",
        "{{math 1 '&' 2}}",
        "{{math (math 1 '+' 2}}",
        "{{now format=}}",
        "{{randomValue length=-1}}",
        "{{pickRandom}}",
        r#"{{now format=\"y\"}}"#,
    ] {
        let refusal = refusal(template);
        assert!(
            matches!(refusal, ValueProblem::Malformed(_)),
            "{template}: {refusal}"
        );
    }
    let deep = format!(
        "{{{{math {}1{} '+' 1}}}}",
        "(math ".repeat(1000),
        " '+' 1)".repeat(1000)
    );
    assert_eq!(
        rendered(&deep),
        "refused: a tag has more than 16 brackets in each other"
    );
}

proptest! {
    #[test]
    fn any_text_is_filled_in_or_refused(
        text in r#"(\{\{|\}\}|[{}()\\'"\[\].=!&# 1-]|request\.|query\.q|path|parameters|name|now |math |pickRandom |randomInt |é|\PC)*"#,
    ) {
        let first = rendered(&text);
        prop_assert_eq!(first, rendered(&text));
    }

    #[test]
    fn text_without_tags_is_kept(text in "[^{]*") {
        let template = Template::compile(&text, None).unwrap();
        prop_assert_eq!(template.constant(), Some(text.as_str()));
    }
}
