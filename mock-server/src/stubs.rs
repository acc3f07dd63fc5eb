//! Stubs: responses from WireMock's mapping files. The server looks up the stub that matches a
//! request, and its response.
//!
//! It must not send, wait or count: a stub describes the response, the server sends it.
//!
//! The reference is WireMock 3.13: <https://wiremock.org/docs/stubbing/>. Paths such as
//! `matching/UrlPattern.java` are of its source, below
//! `src/main/java/com/github/tomakehurst/wiremock/`, read at 3.13.2.
//!
//! | room | for |
//! |---|---|
//! | `load`, `node` | mapping files: reading, JSON, places in it |
//! | `stub`, `set` | one stub; all stubs, and the search for the one that matches |
//! | `request`, `request_pattern` | requests, and patterns for them |
//! | `path_template`, `value_pattern`, `whole_regex` | patterns for paths and values; regular expressions |
//! | `json_pattern`, `json_path`, `json_schema` | `equalToJson`, `matchesJsonPath`, `matchesJsonSchema` |
//! | `reply`, `template` | responses, delays, templates |
//! | `fuzzing` | random requests for fuzzers and tests |
//!
//! # Differences from WireMock
//!
//! `tests/end_to_end/wiremock` of the workspace compares with WireMock 3.13.2 itself. These
//! differences are known.
//!
//! Refused when stubs are loaded, so that no response silently differs:
//!
//! | in a mapping file | WireMock 3.13 |
//! |---|---|
//! | a value of another type than the field's: `"status": "201"`, `"body": 5` | converts it |
//! | a value of a header, or `statusMessage`, that is not one line of ISO 8859-1 | writes blanks, `?` or a raw NUL |
//! | the name of a header that HTTP does not have (`X N`, `X-{{..}}`) | sends it |
//! | a status of 1 to 199, or above 999 | sends `001`, or never ends |
//! | a negative delay, one above an hour, no pieces of a dribble | answers at once, or fails |
//! | a body file that is missing, or outside `__files` | answers 500 |
//! | `absent` of false; two operators at once; options that an operator does not have | ignores what it does not read |
//! | `pathParameters` without a template, half a `basicAuth`, an empty method | matches nothing, or anything |
//! | `\0`, `\Z`, `\R`, `\h`, `\Q`, `\p{Alpha}`, flags `d` and `U` in a regular expression | knows them |
//! | JSON-unit placeholders, XML, dates, numbers, multipart, `matchesPathTemplate`, `scheme`, `port`, `nullable` and other documents in JSON schemas, proxies, webhooks, other transformers | knows them |
//! | JSON paths with functions, several names at once, steps, `=~` and other operators of Jayway's, `$` in a filter | knows them |
//! | templates: blocks, partials, `~`, `this.`, `../`, whole `request`, `request.query`, `request.headers`, `request.id`, other helpers, a template for a body file's name | knows them |
//! | a template that cannot work: tags that are not closed as they are opened, `math` without operands | answers 500, or a text beginning `[ERROR` |
//!
//! Different responses:
//!
//! | request or stub | WireMock 3.13 | here |
//! |---|---|---|
//! | invalid percent-encoding (`%zz`), raw `\|` or `{` in a URL; a strange `Host`; a tab in a cookie | 400 or 500 of Jetty's | the stub |
//! | a time with a raw `+` in a query | is not decoded | as any other value |
//! | `{{math 5 '%' 0.5}}` | `0` | `0.0` |
//! | `math` beyond 2^53; `jsonPath` of what is no JSON | exact; a text beginning `[ERROR` | a float; 500 |
//! | control characters in a `jsonBody` | `\u001F` | `\u001f` |
//! | no `Host` | `request.host` is the server's own address | it is empty |
//! | a body in gzip, or in another charset than UTF-8 | is decoded before it is matched | is matched as it came |
//! | `{"a":1} x` for `equalToJson` | the rest is ignored | is no JSON |
//! | a template that fails on what the client sent | 500 with a Java exception | 500 with another text |
//! | a `jsonBody` that is no JSON once it is filled in | 500 | as filled in |
//! | `1e3` in a `jsonBody` | `1000` | as it is written |
//! | cookies with odd characters | some are not there | are there |
//! | a log-normal delay above its maximum | is drawn again | is cut to it |
//! | a JSON path's filter that compares a number with a text that spells it | they are equal | they differ |
//! | an object or array that a JSON path found, as text | over several lines | on one line |
//! | a `null` among several values that a JSON path found, for a pattern | 500 of Jetty's | the text `null` |
//! | a regular expression with look-around or back-references that takes more than 100,000 steps | takes its time | no match |
//! | `(?i)` beyond ASCII | only with `(?u)` | any letter |
//! | DEL and NUL in a templated header | as they are | a blank |
//! | a stub's name beyond ASCII in `Matched-Stub-Name` | `?` for each character | ISO 8859-1, a blank beyond it |
//! | a request that no stub fits | a comparison with the nearest stub | one line |
//! | the distance of a near miss in JSON, or in patterns under `and`, `or` and `not` | counts differences | 0 or 1 |
//! | near misses of a request without `bodyAsBase64` | are not about bodies | take `body`, or an empty one |
//! | two requests at once for one state of a scenario | both may get it | one gets it |
//!
//! `{"oneOf": [..]}` and `{"noneOf": [..]}` for `method` are of WireMock 4, and refused by 3.13.
//!
//! No file is written but by `mappings/save`, and none is removed: `persistent` is kept and says
//! nothing, and a stub of a file comes back with a reset. A body file is read when its stub is
//! loaded or added. The admin routes show stubs as they were written (WireMock adds `"method": "ANY"` and
//! `"status": 200`) and numbers as 64 bits hold them, answer 404 with a body, and `{}` where
//! WireMock's answer has none; of several problems with a stub they name the first. A change to the stubs is in force in all
//! processes once it is acknowledged.

#[cfg(any(test, fuzzing))]
#[path = "stubs/tests/fuzzing.rs"]
mod fuzzing;
mod json_path;
mod json_pattern;
mod json_schema;
mod load;
mod node;
mod path_template;
mod reply;
mod request;
mod request_pattern;
mod set;
mod stub;
mod template;
mod value_pattern;
mod whole_regex;

pub use load::{LoadError, Mappings, OnUnsupported, StubProblems};
pub use node::{Problem, ValueProblem};

pub(crate) use node::{Node, parse_json, with_digits};
pub(crate) use reply::{Bodies, Dribble, Files, Rendered};
pub(crate) use request::RequestView;
pub(crate) use request_pattern::RequestPattern;
pub(crate) use set::{
    ChangeError, MAX_STUBS, OnTaken, Others, StubChange, Stubs, derived_id, nearest,
};
pub(crate) use stub::{STARTED, ScenarioStep, Stub, state_hash};
pub(crate) use template::{Occasion, Scheme};
pub(crate) use value_pattern::ValuePattern;
