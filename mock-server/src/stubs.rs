//! Stubs: answers written down beforehand, in WireMock's mapping files. The server asks which stub fits a request, and
//! what that stub answers.
//!
//! It must not send, wait or count: a stub says what is to happen, the server makes it happen.
//!
//! The reference is WireMock 3.13: <https://wiremock.org/docs/stubbing/>.

mod asked;
mod node;
