//! `counters!`: declares a struct of counters, and from the same lines how its values merge, their
//! names, help and labels.
//!
//! A name is the key in JSON, the column in CSV and the name in thresholds. Everything that lists
//! counters goes through [`iter`](crate::stats::ItemCounts::iter), so that a new one is declared
//! once. It judges and prints nothing.

use std::collections::BTreeMap;

/// A counter of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Key in JSON, with the unit where it is not a number of things.
    pub name: &'static str,
    /// Description in a sentence.
    pub help: &'static str,
    /// Words for people; none of a counter that only files have.
    pub label: Option<&'static str>,
}

impl Counter {
    /// The name without its unit, of a counter of bytes; none of a number of things.
    #[must_use]
    pub fn of_bytes(&self) -> Option<&'static str> {
        self.name.strip_prefix("bytes_")
    }
}

/// A number that adds up over shards, or several by a key.
pub trait Count {
    /// Add `other`. Those of a file may be anything, so the sum stays below the end of the numbers.
    fn add(&mut self, other: &Self);

    /// Subtract `part`, which is no greater; down to 0 if it is.
    fn subtract(&mut self, part: &Self);

    /// The number; none of several.
    fn number(&self) -> Option<u64> {
        None
    }
}

impl Count for u64 {
    fn add(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }

    fn subtract(&mut self, part: &Self) {
        *self = self.saturating_sub(*part);
    }

    fn number(&self) -> Option<u64> {
        Some(*self)
    }
}

impl<K: Ord + Clone, C: Count + Clone + Default> Count for BTreeMap<K, C> {
    fn add(&mut self, other: &Self) {
        for (key, count) in other {
            self.entry(key.clone()).or_default().add(count);
        }
    }

    fn subtract(&mut self, part: &Self) {
        self.retain(|key, count| {
            if let Some(part) = part.get(key) {
                count.subtract(part);
            }
            count.number() != Some(0)
        });
    }
}

/// By place: what is beyond the end is none.
impl<C: Count + Clone + Default> Count for Vec<C> {
    fn add(&mut self, other: &Self) {
        if self.len() < other.len() {
            self.resize(other.len(), C::default());
        }
        self.iter_mut()
            .zip(other)
            .for_each(|(own, other)| own.add(other));
    }

    fn subtract(&mut self, part: &Self) {
        self.iter_mut()
            .zip(part)
            .for_each(|(own, part)| own.subtract(part));
    }
}

/// Declares a struct of counters, each with its help as doc comment, its type, and its label after
/// `as`. A counter with `[max]` is the greatest of those merged.
macro_rules! counters {
    (@merge $to:expr, $from:ident) => { $crate::stats::Count::add(&mut $to, $from) };
    (@merge $to:expr, $from:ident, max) => { $to = $to.max(*$from) };
    (@label) => { None };
    (@label $label:literal) => { Some($label) };
    ($(#[$meta:meta])* pub struct $name:ident {
        $($(#[doc = $help:literal])+ $(#[serde($($serde:tt)*)])? $field:ident: $type:ty $([$merge:ident])? $(as $label:literal)?,)+
    }) => {
        #[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        $(#[$meta])*
        pub struct $name {
            $($(#[doc = $help])+ $(#[serde($($serde)*)])? pub $field: $type,)+
        }

        impl $name {
            /// Merge with `other`, of another shard or another time.
            pub fn merge(&mut self, other: &Self) {
                $crate::stats::Count::add(self, other);
            }

            /// Both together.
            #[must_use]
            pub fn plus(mut self, other: &Self) -> Self {
                self.merge(other);
                self
            }

            /// Return these counts without those in `part`, which are among them.
            #[must_use]
            pub fn without(mut self, part: &Self) -> Self {
                $crate::stats::Count::subtract(&mut self, part);
                self
            }

            /// Every counter that is one number, in the order of the JSON, with its value.
            pub fn iter(&self) -> impl Iterator<Item = ($crate::stats::Counter, u64)> + use<> {
                [$({
                    let help = concat!($($help),+).trim_ascii_start();
                    let label = $crate::stats::counters!(@label $($label)?);
                    let counter = $crate::stats::Counter { name: stringify!($field), help, label };
                    $crate::stats::Count::number(&self.$field).map(|number| (counter, number))
                }),+].into_iter().flatten()
            }
        }

        impl $crate::stats::Count for $name {
            fn add(&mut self, other: &Self) {
                let Self { $($field),+ } = other;
                $($crate::stats::counters!(@merge self.$field, $field $(, $merge)?);)+
            }

            fn subtract(&mut self, part: &Self) {
                let Self { $($field),+ } = part;
                $($crate::stats::Count::subtract(&mut self.$field, $field);)+
            }
        }
    };
}
pub(crate) use counters;
