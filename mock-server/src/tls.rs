//! Identity of a target over TLS: a certificate of its own making, and the authority that vouches
//! for it. The program that starts the target makes it once, before forking, so that all processes
//! show the same.
//!
//! It must not let the private key out: no text, no file, no debug output has it.

use crate::text::{from_text, list, meaning, word};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls::ServerConfig;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::pki_types::PrivateKeyDer;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A certificate with its key, and the certificate of the authority that signed it. The authority's
/// own key is gone.
///
/// A clone is another handle to the same. Two are equal if they are handles to the same.
#[derive(Clone)]
pub struct Tls {
    identity: Arc<Identity>,
}

struct Identity {
    server: ServerConfig,
    authority_pem: String,
}

impl Tls {
    /// Makes a fresh authority, and a certificate signed by it for `localhost`, 127.0.0.1, `::1`
    /// and `addresses`, of which those that name no single address (`0.0.0.0`, `::`) are passed
    /// over.
    ///
    /// Both are valid for all times: a target lives for minutes, and its clients' clocks are not
    /// its concern.
    ///
    /// # Errors
    ///
    /// The system has no randomness to give.
    pub fn generate(addresses: &[IpAddr]) -> Result<Self, TlsError> {
        let authority_key = KeyPair::generate()?;
        let mut authority = params("crawlmark mock server: authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_certificate = authority.self_signed(&authority_key)?;

        let key = KeyPair::generate()?;
        let mut own = params("crawlmark mock server");
        own.subject_alt_names = names(addresses)?;
        own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        own.use_authority_key_identifier_extension = true;
        let certificate = own.signed_by(&key, &Issuer::new(authority, authority_key))?;

        let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            )?;
        // Tickets carry the session with them, so a client may resume at any process that has the
        // tickets' key.
        server.ticketer = Ticketer::new()?;
        Ok(Self {
            identity: Arc::new(Identity {
                server,
                authority_pem: authority_certificate.pem(),
            }),
        })
    }

    /// The authority's certificate as PEM: what a client has to trust, as with `curl --cacert`.
    pub fn certificate_pem(&self) -> &str {
        &self.identity.authority_pem
    }

    /// Return the configuration of handshakes of QUIC.
    #[cfg(feature = "http3")]
    pub(crate) fn quic(&self) -> ServerConfig {
        let mut server = self.identity.server.clone();
        server.alpn_protocols = vec![b"h3".to_vec()];
        server
    }

    /// Return the configuration of handshakes, offering the versions of `http`.
    pub(crate) fn server(&self, http: Http) -> Arc<ServerConfig> {
        let mut server = self.identity.server.clone();
        server.alpn_protocols = http.alpn();
        Arc::new(server)
    }
}

fn params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params
}

fn names(addresses: &[IpAddr]) -> Result<Vec<SanType>, TlsError> {
    let mut all = vec![
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    all.extend(addresses.iter().filter(|address| !address.is_unspecified()));
    all.sort_unstable();
    all.dedup();
    let mut names = vec![SanType::DnsName("localhost".try_into()?)];
    names.extend(all.into_iter().map(SanType::IpAddress));
    Ok(names)
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity)
    }
}

/// Reason why there is no certificate; it reads after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No certificate.
    #[error("make the target's certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// No way to use it.
    #[error("set up the target's TLS: {0}")]
    Setup(#[from] rustls::Error),
}

/// The versions that connections may speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http {
    /// Both: with TLS the client chooses (ALPN), without it the first bytes tell (prior knowledge,
    /// RFC 9113, 3.3).
    #[default]
    Auto,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 only.
    Http2,
    /// HTTP/3 over UDP, and the two others over TCP, on a port of the same number. With TLS, in a
    /// build with the feature `http3`.
    Http3,
}

impl Http {
    /// Return what a TLS handshake offers, the preferred first (RFC 7301).
    pub(crate) fn alpn(self) -> Vec<Vec<u8>> {
        let offered: &[&[u8]] = match self {
            Self::Auto | Self::Http3 => &[b"h2", b"http/1.1"],
            Self::Http1 => &[b"http/1.1"],
            Self::Http2 => &[b"h2"],
        };
        offered.iter().map(|name| name.to_vec()).collect()
    }
}

/// Versions as they are typed.
const VERSIONS: [(&str, Http); 4] = [
    ("1.1", Http::Http1),
    ("2", Http::Http2),
    ("3", Http::Http3),
    ("auto", Http::Auto),
];

impl fmt::Display for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word(&VERSIONS, self))
    }
}

from_text!(Http, "version of HTTP", list(&VERSIONS));

impl Http {
    fn read(text: &str) -> Option<Self> {
        meaning(&VERSIONS, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_fresh_and_offers_what_is_asked() {
        let (one, two) = (Tls::generate(&[]).unwrap(), Tls::generate(&[]).unwrap());
        assert_ne!(one.certificate_pem(), two.certificate_pem());
        assert!(one == one.clone() && one != two);
        for http in [Http::Auto, Http::Http1, Http::Http2] {
            assert_eq!(one.server(http).alpn_protocols, http.alpn());
        }
    }

    #[test]
    fn nothing_that_is_printed_has_a_private_key() {
        let tls = Tls::generate(&[]).unwrap();
        assert_eq!(format!("{tls:?}"), "Tls { .. }");
        let pem = tls.certificate_pem();
        assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"), "{pem}");
        assert_eq!(pem.matches("-----BEGIN").count(), 1);
    }
}
