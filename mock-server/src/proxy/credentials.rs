//! Credentials of the proxy, and the session that they name: `Proxy-Authorization: Basic` (RFC
//! 7617), where the user name may carry a session label, as rotating gateways have it:
//! `USER-session-LABEL`.
//!
//! It must not print a password.

use crate::text::{BASE64, SettingError};
use base64::Engine;
use std::fmt;
use std::str::FromStr;

/// Separator of a user's name and the session's label.
const SESSION: &str = "-session-";

/// A user's name and password. Neither its text nor its debug output has the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: String,
    password: String,
}

impl FromStr for Credentials {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, SettingError> {
        match text.split_once(':') {
            Some((user, password)) if !user.is_empty() && !text.contains(char::is_control) => {
                Ok(Self {
                    user: user.to_owned(),
                    password: password.to_owned(),
                })
            }
            // The text is not repeated: part of it may be a password.
            _ => Err(SettingError::new(
                "***",
                "user and password",
                "USER:PASS, with a user name that is not empty and without control characters",
            )),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Reason why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    /// There is no `Proxy-Authorization`.
    #[error("this proxy requires credentials: Proxy-Authorization: Basic")]
    Missing,
    /// Unreadable: not `Basic`, not base64, no colon, a label that is empty.
    #[error(
        "the credentials cannot be read: Basic base64(USER:PASS) or Basic base64(USER-session-LABEL:PASS)"
    )]
    Malformed,
    /// Another user's.
    #[error("the credentials are wrong")]
    Wrong,
}

/// Lets a request in whose `Proxy-Authorization` is `header`, and tells its session's label if it
/// has one.
///
/// Without `expected` anybody is let in, under any name; what is there must be readable all the
/// same, lest a session be lost to a typing error.
pub(crate) fn admit(
    expected: Option<&Credentials>,
    header: Option<&[u8]>,
) -> Result<Option<String>, Denied> {
    let Some(header) = header else {
        return if expected.is_some() {
            Err(Denied::Missing)
        } else {
            Ok(None)
        };
    };
    let given = read(header).ok_or(Denied::Malformed)?;
    let label = match expected {
        None => given.user.split_once(SESSION).map(|(_, label)| label),
        Some(expected) => {
            let rest = given
                .user
                .strip_prefix(&expected.user)
                .ok_or(Denied::Wrong)?;
            let label = rest.strip_prefix(SESSION);
            if given.password != expected.password || !(rest.is_empty() || label.is_some()) {
                return Err(Denied::Wrong);
            }
            label
        }
    };
    match label {
        Some("") => Err(Denied::Malformed),
        label => Ok(label.map(str::to_owned)),
    }
}

/// The label of a session in the `Proxy-Authorization` that is `header`, of any user.
pub(crate) fn session_label(header: &[u8]) -> Option<String> {
    admit(None, Some(header)).ok().flatten()
}

fn read(header: &[u8]) -> Option<Credentials> {
    let (scheme, encoded) = std::str::from_utf8(header).ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    String::from_utf8(BASE64.decode(encoded.trim()).ok()?)
        .ok()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(text: &str) -> Vec<u8> {
        format!("Basic {}", BASE64.encode(text)).into_bytes()
    }

    fn expected() -> Credentials {
        "user:pa:ss".parse().unwrap()
    }

    #[test]
    fn only_the_user_is_let_in_with_or_without_a_label() {
        for (given, admitted) in [
            ("user:pa:ss", Ok(None)),
            ("user-session-a:pa:ss", Ok(Some("a"))),
            ("user-session-a-session-b:pa:ss", Ok(Some("a-session-b"))),
            ("user-session-:pa:ss", Err(Denied::Malformed)),
            ("user:pa", Err(Denied::Wrong)),
            ("user:", Err(Denied::Wrong)),
            ("user2:pa:ss", Err(Denied::Wrong)),
            ("use:pa:ss", Err(Denied::Wrong)),
            ("user-sessio-a:pa:ss", Err(Denied::Wrong)),
            ("user-session-a:", Err(Denied::Wrong)),
            (":pa:ss", Err(Denied::Malformed)),
            ("user", Err(Denied::Malformed)),
        ] {
            let admitted = admitted.map(|label| label.map(str::to_owned));
            assert_eq!(
                admit(Some(&expected()), Some(&header(given))),
                admitted,
                "{given}"
            );
        }
        assert_eq!(admit(Some(&expected()), None), Err(Denied::Missing));
    }

    #[test]
    fn what_is_not_basic_is_malformed_and_padding_does_not_matter() {
        for unreadable in [
            &b""[..],
            b"Basic",
            b"Basic ",
            b"Bearer dXNlcjpwYTpzcw==",
            b"Basic \xff",
            b"Basic dXNlcg==",
        ] {
            assert_eq!(
                admit(Some(&expected()), Some(unreadable)),
                Err(Denied::Malformed),
                "{unreadable:?}"
            );
        }
        for readable in [&b"Basic dXNlcjpwYTpzcw=="[..], b"bAsIc   dXNlcjpwYTpzcw"] {
            assert_eq!(
                admit(Some(&expected()), Some(readable)),
                Ok(None),
                "{readable:?}"
            );
        }
    }

    #[test]
    fn no_output_has_the_password() {
        assert_eq!(
            format!("{:?}", expected()),
            r#"Credentials { user: "user", .. }"#
        );
        for text in ["", "user", ":secret", "user:sec\nret"] {
            assert!(
                !text
                    .parse::<Credentials>()
                    .unwrap_err()
                    .to_string()
                    .contains("sec")
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_denied(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let basic = [b"Basic ".to_vec(), bytes.clone()].concat();
            for header in [bytes, basic] {
                prop_assert!(admit(Some(&expected()), Some(&header)).is_err());
            }
        }

        #[test]
        fn any_label_comes_through(label in "[^\\p{Cc}:]{1,60}", password in "\\PC{0,20}") {
            let expected: Credentials = format!("u:{password}").parse().unwrap();
            let given = header(&format!("u-session-{label}:{password}"));
            prop_assert_eq!(admit(Some(&expected), Some(&given)), Ok(Some(label)));
        }
    }
}
