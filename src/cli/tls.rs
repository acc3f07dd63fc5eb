//! Flags of the client's TLS.

use std::path::PathBuf;

use clap::Args;

use crate::crawl::HttpVersion;
use crate::crawl::tls::{Resume, Settings, Trust, Version};

/// TLS of the client, for https:// URLs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TLS, for https:// URLs")]
pub struct TlsArgs {
    /// Trust the authorities in FILE (PEM) instead of those of the system
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub cacert: Option<PathBuf>,
    /// Accept any certificate; the report says so
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// Send the certificate chain in FILE (PEM) to targets that require one
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Private key of --cert, in FILE (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Resume TLS sessions when connections are replaced
    ///
    /// By default, every connection makes a full handshake, as a new client does. Each shard keeps
    /// up to 1,024 sessions of its own. Requests wait for the end of the handshake: 0-RTT is not
    /// used.
    #[arg(long)]
    pub tls_resume: bool,
    /// Lowest TLS version: 1.2 or 1.3 [default: 1.2]
    #[arg(long, value_name = "VERSION")]
    pub tls_min: Option<Version>,
    /// Highest TLS version: 1.2 or 1.3 [default: 1.3]
    #[arg(long, value_name = "VERSION")]
    pub tls_max: Option<Version>,
}

/// Use of TLS by the target of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UseOfTls {
    /// No URL is https://.
    PlainUrls,
    /// At least one URL is https://.
    Urls,
    /// The bundled target, without TLS.
    PlainBundled,
    /// The bundled target, with TLS.
    Bundled,
}

impl TlsArgs {
    /// Convert to the settings of the crawl; `bundled` is the certificate of a bundled target.
    #[must_use]
    pub fn resolve(&self, bundled: Option<String>) -> Settings {
        let trust = match (&self.cacert, bundled) {
            _ if self.insecure => Trust::Anyone,
            (_, Some(pem)) => Trust::Pem(pem),
            (Some(file), None) => Trust::File(file.clone()),
            (None, None) => Trust::System,
        };
        Settings {
            trust,
            identity: self.cert.clone().zip(self.key.clone()),
            min: self.tls_min,
            max: self.tls_max,
            http: HttpVersion::default(),
            resume: if self.tls_resume {
                Resume::Sessions
            } else {
                Resume::Never
            },
        }
    }

    /// Return the first of these flags that was given and does not apply to `use_of_tls`, and why
    /// not.
    #[must_use]
    pub fn misplaced(&self, use_of_tls: UseOfTls) -> Option<(&'static str, &'static str)> {
        const NO_CLIENT: &str =
            "has no effect with --target-tls, which asks for no client certificate: remove it";
        let Self {
            cacert,
            insecure,
            cert,
            key,
            tls_resume,
            tls_min,
            tls_max,
        } = self;
        let all = [
            (
                "--cacert",
                cacert.is_some(),
                Some("is not needed with --target-tls, whose certificate is trusted: remove it"),
            ),
            ("--insecure", *insecure, None),
            ("--cert", cert.is_some(), Some(NO_CLIENT)),
            ("--key", key.is_some(), Some(NO_CLIENT)),
            ("--tls-resume", *tls_resume, None),
            ("--tls-min", tls_min.is_some(), None),
            ("--tls-max", tls_max.is_some(), None),
        ];
        all.into_iter()
            .filter(|(_, is_given, _)| *is_given)
            .find_map(|(flag, _, of_bundled)| {
                let why = match use_of_tls {
                    UseOfTls::PlainUrls => {
                        Some("is for https:// URLs, and there is none: remove it")
                    }
                    UseOfTls::PlainBundled => {
                        Some("needs TLS, which the bundled target does not use: add --target-tls")
                    }
                    UseOfTls::Bundled => of_bundled,
                    UseOfTls::Urls => None,
                };
                Some((flag, why?))
            })
    }
}
