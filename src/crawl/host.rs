//! Hosts of a crawl, and the schemes of their URLs.

use http::header::HeaderValue;

/// Scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP within TLS.
    Https,
}

impl Scheme {
    /// Start of a URL of this scheme.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Http => "http://",
            Self::Https => "https://",
        }
    }

    /// Default port.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A host: what requests of one scheme at one name and port have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub(super) scheme: Scheme,
    /// With the zone of an IPv6 address.
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) header: HeaderValue,
    pub(super) origin: String,
}

impl Host {
    /// Its name in ASCII or its address, without brackets or zone: as other machines know it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.split('%').next().unwrap_or_default()
    }

    /// Its name, or its address with its zone: as this machine finds it.
    #[must_use]
    pub fn local_name(&self) -> &str {
        &self.name
    }

    /// Scheme of its URLs.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Its port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Its scheme, name and port, as a URL begins.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Its `Host` header.
    pub(super) const fn header(&self) -> &HeaderValue {
        &self.header
    }
}
