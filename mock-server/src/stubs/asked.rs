//! A request as stubs look at it: borrowed from the server, decoded only where a stub wants to know.
//!
//! It must not decide anything.

use form_urlencoded::Parse;
use hyper::Method;
use hyper::header::HeaderMap;
use std::net::IpAddr;

/// What a client asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'r> {
    /// The method, case-sensitive.
    pub(crate) method: &'r Method,
    /// Path and query as they were sent, not decoded: `/a%20b?x=1`.
    pub(crate) target: &'r str,
    /// All headers; names are case-insensitive.
    pub(crate) headers: &'r HeaderMap,
    /// The body; empty when no stub looks at bodies.
    pub(crate) body: &'r [u8],
    /// Who asks.
    pub(crate) client: IpAddr,
}

impl<'r> Asked<'r> {
    /// The path as it was sent, without the query.
    pub(crate) fn path(&self) -> &'r str {
        self.target.split_once('?').map_or(self.target, |(path, _)| path)
    }

    /// The parameters of the query in order, percent-decoded, with `+` for a space (`application/x-www-form-urlencoded`
    /// of the WHATWG URL standard). A key may come more than once.
    pub(crate) fn query(&self) -> Parse<'r> {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        form_urlencoded::parse(query.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn path_and_query_are_taken_apart() {
        let headers = HeaderMap::new();
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let asked = |target| Asked { method: &Method::GET, target, headers: &headers, body: &[], client };
        let request = asked("/a%20b?x=1&y=a+b&x=%C3%A4&z");
        assert_eq!(request.path(), "/a%20b");
        let query: Vec<_> = request.query().collect();
        let query: Vec<_> = query.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(query, [("x", "1"), ("y", "a b"), ("x", "ä"), ("z", "")]);
        assert_eq!(asked("/plain").path(), "/plain");
        assert_eq!(asked("/plain").query().count(), 0);
    }
}
