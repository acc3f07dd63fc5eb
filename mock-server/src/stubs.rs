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
mod mappings;
mod method_pattern;
mod node;
mod path_template;
mod reply;
mod report;
mod request_pattern;
mod scenario;
mod set;
mod stub;
mod template;
mod text;
mod url_pattern;
mod value_pattern;
mod whole_regex;

pub use load::OnUnsupported;
pub use mappings::Mappings;
pub use node::{Fault, Problem};
pub use report::{Finding, LoadError, Report, Wrong};
pub use text::SyntaxError;

pub(crate) use asked::Asked;
pub(crate) use node::Node;
pub(crate) use reply::{Breakage, Delays, Dribble, Files, Rendered, Reply};
pub(crate) use request_pattern::RequestPattern;
pub(crate) use scenario::{ScenarioIndex, ScenarioNames, StateIndex};
pub(crate) use set::{ChangeError, Stubs};
pub(crate) use stub::Stub;
pub(crate) use template::{Occasion, Scheme};
pub(crate) use text::parse as parse_json;
