//! Verifiers of the target's certificate: by authorities and given certificates, or not at all
//! (`--insecure`).

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError as Flaw, DigitallySignedStruct, Error, SignatureScheme};

/// Verifier that accepts what an authority issued, and the very certificates that it was given.
///
/// `openssl req -x509` makes certificates of authorities (CA:TRUE), which webpki accepts from no
/// server. One that was given is accepted for its own names, as curl and OpenSSL do.
#[derive(Debug)]
pub(crate) struct Verifier {
    pub(crate) authorities: Arc<WebPkiServerVerifier>,
    pub(crate) given: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.authorities.verify_server_cert(
            certificate,
            intermediates,
            name,
            ocsp_response,
            now,
        );
        match verified {
            // webpki checks the time first: nothing but the name is left to check. It has no public
            // type for CA:TRUE.
            Err(Error::InvalidCertificate(
                Flaw::UnknownIssuer | Flaw::BadSignature | Flaw::Other(_),
            )) if self
                .given
                .iter()
                .any(|given| given.as_ref() == certificate.as_ref()) =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// Error of a refused certificate, once there is one.
#[cfg(feature = "http3")]
pub(crate) type NotedFlaw = Arc<std::sync::OnceLock<Error>>;

/// Verifier that notes why another one refused a certificate: QUIC passes on the alert alone.
#[cfg(feature = "http3")]
#[derive(Debug)]
pub(crate) struct Noting {
    pub(crate) inner: Arc<dyn ServerCertVerifier>,
    pub(crate) flaw: NotedFlaw,
}

#[cfg(feature = "http3")]
impl Noting {
    fn noted<T>(&self, verified: Result<T, Error>) -> Result<T, Error> {
        verified.inspect_err(|error| drop(self.flaw.set(error.clone())))
    }
}

#[cfg(feature = "http3")]
impl ServerCertVerifier for Noting {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.noted(self.inner.verify_server_cert(
            certificate,
            intermediates,
            name,
            ocsp_response,
            now,
        ))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.noted(
            self.inner
                .verify_tls13_signature(message, certificate, signed),
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Verifier of `--insecure`, which accepts any certificate whose key the peer holds, as curl does.
/// Where ring cannot read the certificate or its key (X.509 v1, P-521, RSA of 1024 bits), it accepts
/// any signature.
#[derive(Debug)]
pub(crate) struct Unverified(pub(super) WebPkiSupportedAlgorithms);

/// Longest `SubjectPublicKeyInfo` of an RSA key that is too short for ring: one of 2048 bits has 292
/// bytes at least.
const SHORT_RSA_BYTES: usize = 290;

/// Accept a signature that is valid, or cannot be verified.
fn known_or_valid(
    verified: Result<HandshakeSignatureValid, Error>,
    certificate: &CertificateDer<'_>,
    scheme: SignatureScheme,
) -> Result<HandshakeSignatureValid, Error> {
    use SignatureScheme as Scheme;
    let is_rsa = !matches!(
        scheme,
        Scheme::ECDSA_NISTP256_SHA256 | Scheme::ECDSA_NISTP384_SHA384 | Scheme::ED25519
    );
    if let Err(Error::InvalidCertificate(Flaw::BadSignature)) = verified {
        let key = ParsedCertificate::try_from(certificate).map(|it| it.subject_public_key_info());
        if !is_rsa || key.is_ok_and(|key| key.len() >= SHORT_RSA_BYTES) {
            return verified;
        }
    }
    Ok(HandshakeSignatureValid::assertion())
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verified = verify_tls12_signature(message, certificate, signed, &self.0);
        known_or_valid(verified, certificate, signed.scheme)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verified = verify_tls13_signature(message, certificate, signed, &self.0);
        known_or_valid(verified, certificate, signed.scheme)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        use SignatureScheme as Scheme;
        let unknown = [
            Scheme::ECDSA_NISTP521_SHA512,
            Scheme::ED448,
            Scheme::RSA_PKCS1_SHA1,
            Scheme::ECDSA_SHA1_Legacy,
        ];
        [self.0.supported_schemes(), unknown.to_vec()].concat()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd,
    };
    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
    use rustls::version::{TLS12, TLS13};
    use rustls::{
        ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection,
        SupportedProtocolVersion,
    };

    use super::*;

    const NAME: &str = "a.example";

    /// Verify `certificate` for [`NAME`] in the year 2030, with `given` trusted.
    fn verify(
        certificate: &CertificateDer<'static>,
        given: &[&CertificateDer<'static>],
    ) -> Result<(), Error> {
        let given: Vec<_> = given.iter().map(|given| (*given).clone()).collect();
        let mut roots = RootCertStore::empty();
        for certificate in &given {
            roots.add(certificate.clone()).unwrap();
        }
        let provider = Arc::new(default_provider());
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .unwrap();
        let name = ServerName::try_from(NAME).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_hours((60 * 365 + 40) * 24));
        Verifier { authorities, given }
            .verify_server_cert(certificate, &[], &name, &[], now)
            .map(|_| ())
    }

    #[test]
    fn a_given_certificate_is_accepted_for_its_names_and_time_whatever_made_it() {
        let issuer = |name: &str| {
            let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
        };
        let (authority, other) = (issuer("authority"), issuer(NAME));
        for is_ca in [
            IsCa::NoCa,
            IsCa::ExplicitNoCa,
            IsCa::Ca(BasicConstraints::Unconstrained),
        ] {
            for (names, has_name) in [
                (vec![NAME], true),
                (vec!["b.example"], false),
                (vec![], false),
            ] {
                for (years, is_valid) in [
                    ((2020, 2040), true),
                    ((2020, 2025), false),
                    ((2035, 2040), false),
                ] {
                    for is_self_signed in [true, false] {
                        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
                        let mut params = CertificateParams::new(names).unwrap();
                        (params.not_before, params.not_after) =
                            (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
                        params.is_ca = is_ca;
                        let key = KeyPair::generate().unwrap();
                        let made = if is_self_signed {
                            params.self_signed(&key)
                        } else {
                            params.signed_by(&key, &authority)
                        };
                        let made = made.unwrap().der().clone();
                        let what = format!("{is_ca:?} {has_name} {years:?} {is_self_signed}");
                        assert_eq!(
                            verify(&made, &[&made]).is_ok(),
                            has_name && is_valid,
                            "given, {what}"
                        );
                        assert_eq!(
                            verify(&made, &[other.der(), &made]).is_ok(),
                            has_name && is_valid,
                            "beside another, {what}"
                        );
                        assert!(verify(&made, &[other.der()]).is_err(), "not given, {what}");
                        let is_issued = !is_self_signed && !matches!(is_ca, IsCa::Ca(_));
                        let by_issuer = verify(&made, &[authority.der()]);
                        assert_eq!(
                            by_issuer.is_ok(),
                            is_issued && has_name && is_valid,
                            "its issuer is given, {what}"
                        );
                    }
                }
            }
        }
    }

    /// Shake hands with a server that shows `shown` and signs with `signer`.
    fn shake_hands(
        shown: &CertificateDer<'static>,
        signer: &KeyPair,
        version: &'static SupportedProtocolVersion,
    ) -> Result<(), Error> {
        let provider = Arc::new(default_provider());
        let key = PrivateKeyDer::try_from(signer.serialize_der()).unwrap();
        let key = provider.key_provider.load_private_key(key).unwrap();
        let shown = CertifiedKey::new(vec![shown.clone()], key);
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
        let verifier = Unverified(provider.signature_verification_algorithms);
        let client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let name = ServerName::try_from(NAME).unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        while client.is_handshaking() {
            let mut passed = Vec::new();
            client.write_tls(&mut passed).unwrap();
            server.read_tls(&mut &*passed).unwrap();
            server.process_new_packets()?;
            let mut passed = Vec::new();
            server.write_tls(&mut passed).unwrap();
            client.read_tls(&mut &*passed).unwrap();
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    fn an_insecure_peer_has_to_hold_the_key_of_its_certificate() {
        let (own, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let params = CertificateParams::new(vec!["expired.example".to_owned()]).unwrap();
        let shown = params.self_signed(&own).unwrap().der().clone();
        for version in [&TLS12, &TLS13] {
            assert_eq!(shake_hands(&shown, &own, version), Ok(()));
            let flaw = Error::InvalidCertificate(Flaw::BadSignature);
            assert_eq!(shake_hands(&shown, &other, version), Err(flaw));
        }
    }
}
