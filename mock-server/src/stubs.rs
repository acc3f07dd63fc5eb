//! Stubs: answers written down beforehand, in WireMock's mapping files. The server asks which stub fits a request, and
//! what that stub answers.
//!
//! It must not send, wait or count: a stub says what is to happen, the server makes it happen.
//!
//! The reference is WireMock 3.13: <https://wiremock.org/docs/stubbing/>. Paths such as `matching/UrlPattern.java` are
//! of its source, below `src/main/java/com/github/tomakehurst/wiremock/`, read at 3.13.2.

mod asked;
mod index;
mod json_pattern;
mod load;
mod node;
mod path_template;
mod reply;
mod request_pattern;
mod scenario;
mod set;
mod stub;
mod template;
mod text;
mod value_pattern;
mod whole_regex;
