//! TLS of the client: trusted authorities, its own certificate, versions, and the name to verify
//! for each host.
//!
//! Built once by `run`, before the fork, and shared by all shards; reading the system's authorities
//! starts no thread. The private key must not appear in any text, file or debug output.

pub(crate) mod failure;
mod verifier;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::text_file::plain;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio_rustls::TlsConnector;

use self::failure::of_handshake;
#[cfg(feature = "http3")]
pub(crate) use self::verifier::NotedFlaw;
#[cfg(feature = "http3")]
use self::verifier::Noting;
use self::verifier::{Unverified, Verifier};
use super::failure::Failure;
use crate::crawl::requests::host::{ALPN_1, ALPN_2, ALPN_3, Host, HttpVersion, Scheme};

/// Sessions that each shard can resume, with [`Settings::resume`].
const SESSIONS: usize = 1024;

/// Authorities that a client trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those of the system.
    #[default]
    System,
    /// Those of a PEM file (`--cacert`).
    File(PathBuf),
    /// Those of a PEM text: the certificate of the bundled target.
    Pem(String),
    /// Any certificate (`--insecure`).
    Anyone,
}

/// Resumption of TLS sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Resume {
    /// Every connection makes a full handshake.
    #[default]
    Never,
    /// Connections of a shard resume earlier sessions of its own.
    Sessions,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Version {
    /// TLS 1.2.
    #[value(name = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[value(name = "1.3")]
    Tls13,
}

/// TLS settings, from the flags of the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Authorities to trust.
    pub trust: Trust,
    /// Files of the client's certificate chain and of its private key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Lowest version.
    pub min: Option<Version>,
    /// Highest version.
    pub max: Option<Version>,
    /// Resumption of sessions.
    pub resume: Resume,
    /// Versions of HTTP to offer.
    pub http: HttpVersion,
}

/// Reason why settings cannot be used. Never quotes the content of a file.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file cannot be used.
    #[error("{flag} {path}: {why}", path = path.display())]
    File {
        /// Flag that names the file.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Its flaw.
        why: String,
    },
    /// The system has no authorities.
    #[error(
        "no certificate authority was found on this system{0}: pass --cacert FILE, or --insecure"
    )]
    NoAuthority(String),
    /// No version is left.
    #[error("--tls-min is higher than --tls-max: lower the one or raise the other")]
    NoVersion,
    /// A host that cannot be the name of a certificate.
    #[error("the host `{0}` cannot be the name of a certificate: write a DNS name or an address")]
    Name(String),
    /// The cryptography library refuses.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

impl SettingsError {
    fn file(flag: &'static str, path: &Path, why: impl Into<String>) -> Self {
        Self::File {
            flag,
            path: path.to_owned(),
            why: why.into(),
        }
    }

    /// Convert an error of a PEM file without quoting the file: a line that the library cannot read
    /// may belong to a key. `label` is that of the expected section.
    fn pem(flag: &'static str, path: &Path, error: pem::Error, label: &str) -> Self {
        let why = match error {
            pem::Error::Io(error) => format!("cannot be read: {error}"),
            pem::Error::NoItemsFound => format!(
                "holds no {} in PEM, which begins with -----BEGIN {label}-----",
                label.to_ascii_lowercase()
            ),
            _ => "is not valid PEM: export it again, as PEM".to_owned(),
        };
        Self::file(flag, path, why)
    }
}

/// TLS of a crawl; a clone shares everything.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    #[cfg(feature = "http3")]
    quic: Quic,
    http: HttpVersion,
    /// Names that certificates are verified against, by the number of the host; none of a host
    /// without TLS.
    names: Arc<[Option<ServerName<'static>>]>,
}

impl Tls {
    /// TLS for `hosts`.
    ///
    /// # Errors
    /// When a file cannot be used, or the settings contradict each other.
    pub fn new(settings: &Settings, hosts: &[Host]) -> Result<Self, SettingsError> {
        let provider = Arc::new(default_provider());
        let verifier = verifier(&settings.trust, Arc::clone(&provider))?;
        let config = Arc::new(config(settings, provider, &verifier)?);
        Ok(Self {
            connector: TlsConnector::from(Arc::clone(&config)),
            #[cfg(feature = "http3")]
            quic: Quic { config, verifier },
            http: settings.http,
            names: hosts
                .iter()
                .map(|host| match host.scheme {
                    Scheme::Http => Ok(None),
                    Scheme::Https => ServerName::try_from(host.name().to_owned())
                        .map(Some)
                        .map_err(|_| SettingsError::Name(host.name().to_owned())),
                })
                .collect::<Result<_, _>>()?,
        })
    }

    pub(crate) const fn connector(&self) -> &TlsConnector {
        &self.connector
    }

    #[cfg(feature = "http3")]
    pub(crate) const fn quic(&self) -> &Quic {
        &self.quic
    }

    /// Classify the failure of a handshake.
    pub(crate) fn failure(&self, error: &io::Error) -> Failure {
        let failure = of_handshake(error);
        let is_refused = failure::is_no_protocol(error) && self.http == HttpVersion::Http2;
        let kind = if is_refused {
            ErrorKind::Http2NotOffered
        } else {
            failure.kind
        };
        Failure { kind, ..failure }
    }

    /// Return the name of a host; none of one without TLS.
    pub(crate) fn name(&self, host: usize) -> Option<&ServerName<'static>> {
        self.names.get(host)?.as_ref()
    }
}

/// What handshakes of QUIC are made of.
#[cfg(feature = "http3")]
#[derive(Clone)]
pub(crate) struct Quic {
    config: Arc<ClientConfig>,
    verifier: Arc<dyn ServerCertVerifier>,
}

#[cfg(feature = "http3")]
impl Quic {
    /// Return the settings of a handshake, which notes in `flaw` why it refused a certificate.
    pub(crate) fn config(&self, flaw: &NotedFlaw) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.config);
        let (inner, flaw) = (Arc::clone(&self.verifier), Arc::clone(flaw));
        let noting = Arc::new(Noting { inner, flaw });
        config.dangerous().set_certificate_verifier(noting);
        Arc::new(config)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

fn config(
    settings: &Settings,
    provider: Arc<CryptoProvider>,
    verifier: &Arc<dyn ServerCertVerifier>,
) -> Result<ClientConfig, SettingsError> {
    let versions = versions(settings)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(SettingsError::Setup)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(verifier));
    let mut config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => builder
            .with_client_auth_cert(certificates("--cert", cert)?, private_key(key)?)
            .map_err(|error| {
                let cert = cert.display();
                let why = match error {
                    rustls::Error::InconsistentKeys(_) => format!(
                        "is not the private key of --cert {cert}: pass the two that belong together"
                    ),
                    error => format!("cannot be used with --cert {cert}: {error}"),
                };
                SettingsError::file("--key", key, why)
            })?,
    };
    let offered: &[&[u8]] = match settings.http {
        HttpVersion::Http1 => &[ALPN_1],
        HttpVersion::Http2 => &[ALPN_2],
        HttpVersion::Auto => &[ALPN_2, ALPN_1],
        HttpVersion::Http3 => &[ALPN_3],
    };
    config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    config.resumption = match settings.resume {
        Resume::Never => Resumption::disabled(),
        Resume::Sessions => Resumption::in_memory_sessions(SESSIONS),
    };
    Ok(config)
}

fn versions(settings: &Settings) -> Result<Vec<&'static SupportedProtocolVersion>, SettingsError> {
    let (min, max) = (
        settings.min.unwrap_or(Version::Tls12),
        settings.max.unwrap_or(Version::Tls13),
    );
    let all = [(Version::Tls13, &TLS13), (Version::Tls12, &TLS12)];
    let allowed: Vec<_> = all
        .into_iter()
        .filter(|(version, _)| (min..=max).contains(version))
        .collect();
    if allowed.is_empty() {
        Err(SettingsError::NoVersion)
    } else {
        Ok(allowed.into_iter().map(|(_, is)| is).collect())
    }
}

/// Return the verifier of the target's certificate.
fn verifier(
    trust: &Trust,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, SettingsError> {
    let mut roots = RootCertStore::empty();
    let (given, path) = match trust {
        Trust::Anyone => {
            return Ok(Arc::new(Unverified(
                provider.signature_verification_algorithms,
            )));
        }
        Trust::System => {
            // Some systems list authorities that cannot be parsed; the others are used.
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let why = found
                    .errors
                    .first()
                    .map(|error| format!(" ({error})"))
                    .unwrap_or_default();
                return Err(SettingsError::NoAuthority(why));
            }
            (Vec::new(), Path::new(""))
        }
        Trust::File(path) => (certificates(CACERT, path)?, path.as_path()),
        Trust::Pem(text) => {
            let path = Path::new("of the bundled target");
            let read = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<_, _>>();
            (
                read.map_err(|error| SettingsError::pem(CACERT, path, error, CERTIFICATE))?,
                path,
            )
        }
    };
    for (at, certificate) in given.iter().enumerate() {
        roots.add(certificate.clone()).map_err(|_| {
            let why = format!(
                "certificate number {} cannot be parsed: export it again, as PEM",
                at + 1
            );
            SettingsError::file(CACERT, path, why)
        })?;
    }
    let authorities =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let authorities =
        authorities.map_err(|error| SettingsError::NoAuthority(format!(" ({error})")))?;
    Ok(Arc::new(Verifier { authorities, given }))
}

const CACERT: &str = "--cacert";

/// Label of a certificate in PEM.
const CERTIFICATE: &str = "CERTIFICATE";

fn certificates(
    flag: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    let text = pem_text(flag, path)?;
    CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .and_then(|all| {
            if all.is_empty() {
                Err(pem::Error::NoItemsFound)
            } else {
                Ok(all)
            }
        })
        .map_err(|error| SettingsError::pem(flag, path, error, CERTIFICATE))
}

/// Read a PEM file.
fn pem_text(flag: &'static str, path: &Path) -> Result<Vec<u8>, SettingsError> {
    std::fs::read(path)
        .map(plain)
        .map_err(|error| SettingsError::file(flag, path, format!("cannot be read: {error}")))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, SettingsError> {
    let text = pem_text("--key", path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        // In the label of PKCS #8, and in a header of the older formats (`Proc-Type: 4,ENCRYPTED`).
        if text.windows(9).any(|part| part == b"ENCRYPTED") {
            let why = format!(
                "cannot be used: it is encrypted with a passphrase. Decrypt it: openssl pkey -in {} -out FILE",
                path.display()
            );
            return SettingsError::file("--key", path, why);
        }
        SettingsError::pem("--key", path, error, "PRIVATE KEY")
    })
}
