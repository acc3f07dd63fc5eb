//! Hosts of a crawl, the schemes of their URLs, and the versions of HTTP: which one is spoken on a
//! connection.

use clap::ValueEnum;
use http::header::HeaderValue;

use super::template::{Template, TemplateError};

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
    /// Scheme of its URLs.
    pub scheme: Scheme,
    /// With the zone of an IPv6 address.
    pub(crate) name: String,
    /// Port, typed or that of the scheme.
    pub port: u16,
    pub(crate) header: HeaderValue,
    pub(crate) origin: String,
}

impl Host {
    /// The host of a URL.
    ///
    /// # Errors
    /// When it cannot be a `Host` header.
    pub(crate) fn of(template: &Template) -> Result<Self, TemplateError> {
        let header = HeaderValue::from_str(template.authority()).map_err(|error| {
            TemplateError::Url(template.to_string(), format!("cannot be read: {error}"))
        })?;
        Ok(Self {
            scheme: template.scheme,
            name: template.host().to_owned(),
            port: template.port,
            header,
            origin: template.origin().to_owned(),
        })
    }

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

    /// Its scheme, name and port, as a URL begins.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Its `Host` header.
    pub(crate) const fn header(&self) -> &HeaderValue {
        &self.header
    }
}

/// Name of HTTP/1.1 in reports.
pub(crate) const HTTP_1: &str = "HTTP/1.1";

/// Name of HTTP/2 in reports.
pub(crate) const HTTP_2: &str = "HTTP/2";

/// Name of HTTP/3 in reports.
#[cfg(feature = "http3")]
pub(crate) const HTTP_3: &str = "HTTP/3";

/// Name of HTTP/1.1 in TLS handshakes (ALPN, RFC 7301).
pub(crate) const ALPN_1: &[u8] = b"http/1.1";

/// Name of HTTP/2 in TLS handshakes (RFC 9113, 3.1).
pub(crate) const ALPN_2: &[u8] = b"h2";

/// Name of HTTP/3 in TLS handshakes (RFC 9114, 3.1).
pub(crate) const ALPN_3: &[u8] = b"h3";

/// Versions of HTTP that may be spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum HttpVersion {
    /// HTTP/1.1.
    #[default]
    #[value(name = "1.1")]
    Http1,
    /// HTTP/2: agreed on in the TLS handshake, or known to be spoken without TLS.
    #[value(name = "2")]
    Http2,
    /// The version that the target chooses in the TLS handshake; HTTP/1.1 without TLS.
    Auto,
    /// HTTP/3, over QUIC; in a build with the feature `http3`.
    #[value(name = "3")]
    Http3,
}

/// Use of HTTP by a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpSettings {
    /// Versions that may be spoken.
    pub version: HttpVersion,
    /// Most streams of a connection of HTTP/2 or HTTP/3; 1 without.
    pub streams: u32,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            version: HttpVersion::default(),
            streams: 1,
        }
    }
}

impl HttpVersion {
    /// True if a connection to a host of this scheme may have streams: that of HTTP/2 or HTTP/3.
    #[must_use]
    pub fn may_have_streams(self, scheme: Scheme) -> bool {
        match self {
            Self::Http1 => false,
            Self::Http2 | Self::Http3 => true,
            Self::Auto => scheme == Scheme::Https,
        }
    }
}
