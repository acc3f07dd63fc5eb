//! Methods that a request pattern matches (`http/RequestMethod.java`).
//!
//! It must not know anything else of a request.

use super::node::{Node, Problem};
use hyper::Method;
use serde_json::Value;

/// `method`.
#[derive(Clone, Debug, Default)]
pub(crate) enum MethodPattern {
    /// `ANY`, or nothing said.
    #[default]
    Any,
    /// One of these.
    OneOf(Vec<Method>),
    /// Any but these.
    NoneOf(Vec<Method>),
}

impl MethodPattern {
    /// Reads a name, `ANY`, `GET_OR_HEAD`, or what 4.x has: `{"oneOf": [..]}` and
    /// `{"noneOf": [..]}`.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        if let Value::String(name) = node.value() {
            return match name.as_str() {
                "ANY" => Ok(Self::Any),
                "GET_OR_HEAD" => Ok(Self::OneOf(vec![Method::GET, Method::HEAD])),
                _ => Ok(Self::OneOf(vec![method(node)?])),
            };
        }
        node.only("oneOf noneOf")?;
        let methods = |list: Node<'_>| {
            list.elements()?
                .map(|name| method(&name))
                .collect::<Result<Vec<_>, _>>()
        };
        match (node.get("oneOf"), node.get("noneOf")) {
            (Some(list), None) => methods(list).map(Self::OneOf),
            (None, Some(list)) => methods(list).map(Self::NoneOf),
            _ => Err(node.malformed("expected a method, or one of `oneOf` and `noneOf`")),
        }
    }

    /// True if the method is one of those that are meant.
    pub(crate) fn is_match(&self, method: &Method) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(methods) => methods.iter().any(|one| is_method(one, method)),
            Self::NoneOf(methods) => !methods.iter().any(|one| is_method(one, method)),
        }
    }
}

fn method(node: &Node<'_>) -> Result<Method, Problem> {
    Method::from_bytes(node.text()?.as_bytes()).map_err(|_| node.malformed("not a method"))
}

/// WireMock turns the request's method to upper case first, but not the stub's: a stub for `get`
/// never matches.
fn is_method(pattern: &Method, method: &Method) -> bool {
    let (pattern, method) = (pattern.as_str().bytes(), method.as_str().bytes());
    pattern.eq(method.map(|byte| byte.to_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn methods() {
        let head_or_put = json!({"oneOf": ["HEAD", "PUT"]});
        let table = [
            (json!("ANY"), "BREW", true),
            (json!("GET"), "GET", true),
            (json!("GET"), "HEAD", false),
            (json!("GET_OR_HEAD"), "HEAD", true),
            (json!("GET_OR_HEAD"), "POST", false),
            // The request's is turned to upper case, the stub's is not.
            (json!("GET"), "get", true),
            (json!("get"), "GET", false),
            (json!("get"), "get", false),
            (head_or_put.clone(), "PUT", true),
            (head_or_put, "GET", false),
            (json!({"noneOf": ["GET"]}), "GET", false),
            (json!({"noneOf": ["GET"]}), "PUT", true),
        ];
        for (read, method, expected) in table {
            let pattern = MethodPattern::read(&Node::root(&read)).unwrap();
            assert_eq!(
                pattern.is_match(&method.parse().unwrap()),
                expected,
                "{read} on {method}"
            );
        }
    }
}
