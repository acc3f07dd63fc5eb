//! `RateLimit` and `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers, which are structured
//! fields (RFC 9651). Read for answers that have them.
//!
//! Each line is read on its own, so that one that is malformed does not spoil the others; a list
//! that was cut into lines within a member is malformed then. It must not know what a status makes
//! of it.

use std::time::Duration;

use crawlmark_harness::sample::Quota;
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};

use super::value::is_plausible;
use super::{QuotaFields, stricter};
use crate::crawl::response::fields::HeaderFields;

pub(crate) const FIELD: &str = "ratelimit";
const POLICY: &str = "ratelimit-policy";

/// Policies beyond these are not looked at: no target describes as many, and each member is held
/// against all of them.
const MAX_POLICIES: usize = 16;

/// Values of the field, in the present draft and in older ones.
#[derive(Debug, Default)]
pub(crate) struct RateLimit {
    /// Longest time until more is allowed, among the members that have nothing left: zero if they
    /// do not say, none if there is no such member.
    pub(crate) used_up: Option<Duration>,
    /// The strictest of the quotas that are counted in requests.
    pub(crate) quota: Option<Quota>,
    /// `limit=100, remaining=50, reset=50`, as of draft 07.
    pub(crate) draft_07: QuotaFields,
}

/// A member of `RateLimit-Policy`.
struct Policy {
    name: String,
    limit: Option<u64>,
    /// False of one that counts bytes, requests at the same time, or a unit of a later draft.
    counts_requests: bool,
}

impl RateLimit {
    /// Reads all lines of the field.
    pub(crate) fn read(headers: HeaderFields<'_>) -> Self {
        let policies: Vec<Policy> = headers
            .all(POLICY)
            .filter_map(|line| Parser::new(line).parse::<List>().ok())
            .flatten()
            .filter_map(policy)
            .take(MAX_POLICIES)
            .collect();
        let mut read = Self::default();
        for line in headers.all(FIELD) {
            if let Ok(members) = Parser::new(line).parse::<List>() {
                for member in &members {
                    read.take(member, &policies);
                }
            } else if let Ok(members) = Parser::new(line).parse::<Dictionary>() {
                read.draft_07.take(&dictionary(&members));
            }
        }
        read
    }

    fn take(&mut self, member: &ListEntry, policies: &[Policy]) {
        let ListEntry::Item(item) = member else {
            return;
        };
        let (Some(name), Some(remaining)) = (name(item), parameter(item, "r")) else {
            return;
        };
        let resets_in = match item.params.get("t").map(span) {
            None => None,
            Some(Some(span)) => Some(span),
            // A member with half of it malformed is malformed.
            Some(None) => return,
        };
        let policy = policies.iter().find(|policy| policy.name == name);
        if remaining == 0 {
            self.used_up = self.used_up.max(Some(resets_in.unwrap_or_default()));
        }
        if policy.is_none_or(|policy| policy.counts_requests) {
            let quota = Quota {
                remaining,
                limit: policy.and_then(|policy| policy.limit),
                resets_in,
            };
            self.quota = self.quota.into_iter().chain([quota]).reduce(stricter);
        }
    }
}

fn policy(member: ListEntry) -> Option<Policy> {
    let ListEntry::Item(item) = member else {
        return None;
    };
    let counts_requests = match item.params.get("qu") {
        None => true,
        Some(BareItem::String(unit)) => unit.as_str() == "requests",
        Some(_) => false,
    };
    Some(Policy {
        name: name(&item)?.to_owned(),
        limit: parameter(&item, "q"),
        counts_requests,
    })
}

/// The name of a member: a string, or a token as between drafts 07 and 08.
fn name(item: &Item) -> Option<&str> {
    match &item.bare_item {
        BareItem::String(name) => Some(name.as_str()),
        BareItem::Token(name) => Some(name.as_str()),
        _ => None,
    }
}

fn parameter(item: &Item, key: &str) -> Option<u64> {
    item.params.get(key).and_then(number)
}

fn number(item: &BareItem) -> Option<u64> {
    item.as_integer()?.try_into().ok()
}

fn span(item: &BareItem) -> Option<Duration> {
    number(item).map(Duration::from_secs).filter(is_plausible)
}

fn dictionary(members: &Dictionary) -> QuotaFields {
    let [remaining, limit, reset] = ["remaining", "limit", "reset"].map(|key| {
        let ListEntry::Item(item) = members.get(key)? else {
            return None;
        };
        Some(&item.bare_item)
    });
    QuotaFields {
        remaining: remaining.and_then(number),
        limit: limit.and_then(number),
        reset: reset.and_then(span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(&str, &str)]) -> RateLimit {
        let fields = lines.iter().map(|(name, value)| httparse::Header {
            name,
            value: value.as_bytes(),
        });
        RateLimit::read(HeaderFields::new(&fields.collect::<Vec<_>>()))
    }

    #[expect(clippy::unnecessary_wraps, reason = "as it is compared")]
    fn quota(remaining: u64, limit: Option<u64>, resets_in: Option<u64>) -> Option<Quota> {
        Some(Quota {
            remaining,
            limit,
            resets_in: resets_in.map(Duration::from_secs),
        })
    }

    #[test]
    fn members_are_read_by_the_present_draft() {
        for (field, expected) in [
            (r#""default";r=50;t=30"#, quota(50, None, Some(30))),
            (
                r#""default";r=999;pk=:dHJpYWwxMjEzMjM=:"#,
                quota(999, None, None),
            ),
            ("default;r=50;t=30", quota(50, None, Some(30))),
            (
                r#""protected";r=50;t=30, "daily";r=1;t=86400"#,
                quota(1, None, Some(86_400)),
            ),
            // What is malformed, or not by the draft, is ignored: a member, or all of the line.
            (r#""default";r=-1;t=30"#, None),
            (r#""default";r=0;t=-1"#, None),
            (r#""default";r=0;t=1.5"#, None),
            (r#""default";r="0""#, None),
            (r#""default";t=30"#, None),
            (r#"("default");r=0"#, None),
            (r#""default";r=0;t=99999999999999"#, None),
            (r#""a";r=-1, "b";r=3;t=1"#, quota(3, None, Some(1))),
        ] {
            let rate_limit = read(&[(FIELD, field)]);
            assert_eq!(rate_limit.quota, expected, "{field}");
            assert_eq!(rate_limit.used_up, None, "{field}");
        }
    }

    #[test]
    fn a_policy_tells_the_limit_and_what_is_counted() {
        let policy = r#""burst";q=100;w=60,"bytes";q=65535;qu="content-bytes";w=10, "many";q=5;qu="requests";w=1"#;
        let of = |field| read(&[(POLICY, policy), (FIELD, field)]);
        assert_eq!(
            of(r#""burst";r=50;t=30"#).quota,
            quota(50, Some(100), Some(30))
        );
        assert_eq!(of(r#""many";r=4;t=1"#).quota, quota(4, Some(5), Some(1)));
        // Bytes are no requests to pace by; without any left, nothing goes all the same.
        assert_eq!(
            of(r#""bytes";r=7;t=10, "burst";r=50;t=30"#).quota,
            quota(50, Some(100), Some(30))
        );
        let bytes = of(r#""bytes";r=0;t=10"#);
        assert_eq!(
            (bytes.quota, bytes.used_up),
            (None, Some(Duration::from_secs(10)))
        );
    }
}
