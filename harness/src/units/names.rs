//! `names!`: declares an enum whose values have names, and from the same lines its list, its text,
//! its parser and its names in JSON.

/// Reason why a text names nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not one of {known}")]
pub struct UnknownName {
    given: String,
    known: String,
}

impl UnknownName {
    pub(crate) fn new(given: &str, known: &[&str]) -> Self {
        Self {
            given: given.to_owned(),
            known: known.join(", "),
        }
    }
}

/// Declare an enum: each value with its name.
macro_rules! names {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$note:meta])* $value:ident = $name:literal,)+ }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        $(#[$meta])*
        pub enum $type {
            $($(#[$note])* #[serde(rename = $name)] $value,)+
        }

        impl $type {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// The name used on the command line and in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::units::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| $crate::units::UnknownName::new(text, &Self::ALL.map(Self::name)))
            }
        }
    };
}
pub(crate) use names;
