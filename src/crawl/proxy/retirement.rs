//! Retirement of proxy sessions: one that was used often enough, failed too often or was blocked
//! gives way to a new one.
//!
//! Each shard counts for its own connections. A session with a connection of its own ends with it;
//! sticky ones are numbered anew, so that their label, cookies and proxy change.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::str::FromStr;

use crawlmark_harness::sample::Outcome;

use super::Session;
use crate::crawl::expect::Statuses;

/// Event after which a session is retired (`--retire-session`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetireAfter {
    /// Number of requests.
    Uses(NonZeroU32),
    /// Number of failed requests: without a response, with a rejected one, or with a connection
    /// that did not open.
    Errors(NonZeroU32),
    /// A response with one of these statuses.
    Status(Statuses),
    /// A response that throttles, or a challenge page.
    Block,
}

impl RetireAfter {
    fn is_met(&self, session: &SessionUse, status: Option<u16>, outcome: Outcome) -> bool {
        match self {
            Self::Uses(most) => session.uses.get() >= most.get(),
            Self::Errors(most) => session.errors.get() >= most.get(),
            Self::Status(statuses) => status.is_some_and(|status| statuses.contains(status)),
            Self::Block => matches!(outcome, Outcome::Throttled | Outcome::SoftBlocked),
        }
    }
}

impl fmt::Display for RetireAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uses(most) => write!(f, "uses={most}"),
            Self::Errors(most) => write!(f, "errors={most}"),
            Self::Status(statuses) => write!(f, "status={statuses}"),
            Self::Block => f.write_str("block"),
        }
    }
}

impl FromStr for RetireAfter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.split_once('=') {
            None if text == "block" => Some(Self::Block),
            Some(("uses", most)) => most.parse().ok().map(Self::Uses),
            Some(("errors", most)) => most.parse().ok().map(Self::Errors),
            Some(("status", statuses)) => Statuses::read(statuses).map(Self::Status),
            _ => None,
        };
        parsed.ok_or_else(|| {
            format!("`{text}` is none of uses=N, errors=N, status=403,429 and block")
        })
    }
}

/// Session that one or more connections use.
#[derive(Debug)]
pub(in crate::crawl) struct SessionUse {
    /// Number that decides its label.
    number: u64,
    uses: Cell<u32>,
    errors: Cell<u32>,
    is_retired: Cell<bool>,
}

impl SessionUse {
    fn new(number: u64) -> Rc<Self> {
        Rc::new(Self {
            number,
            uses: Cell::default(),
            errors: Cell::default(),
            is_retired: Cell::default(),
        })
    }

    pub(in crate::crawl) const fn number(&self) -> u64 {
        self.number
    }

    /// True if no further request may use it.
    pub(in crate::crawl) const fn is_retired(&self) -> bool {
        self.is_retired.get()
    }

    /// Count an attempt that ended, and return true if the session is retired because of it.
    pub(in crate::crawl) fn ended(
        &self,
        rules: &[RetireAfter],
        status: Option<u16>,
        outcome: Outcome,
    ) -> bool {
        self.uses.set(self.uses.get().saturating_add(1));
        let is_failed = matches!(outcome, Outcome::Rejected | Outcome::Error(_));
        self.errors
            .set(self.errors.get().saturating_add(u32::from(is_failed)));
        !self.is_retired.replace(
            self.is_retired.get() || rules.iter().any(|rule| rule.is_met(self, status, outcome)),
        ) && self.is_retired.get()
    }
}

/// Sessions of the connections of one shard.
#[derive(Debug, Default)]
pub(in crate::crawl) struct Sessions {
    /// Those that connections use in turn; empty until the first one, and where none is retired.
    sticky: RefCell<Vec<Rc<SessionUse>>>,
}

impl Sessions {
    /// Return the session of connection number `turn` of the run, which is opened by shard `shard`
    /// of `shards`.
    ///
    /// Where sessions are retired, each shard has its share of the sticky ones, or one of them if
    /// there are fewer than shards.
    pub(in crate::crawl) fn at(
        &self,
        session: Session,
        rules: &[RetireAfter],
        turn: u64,
        shard: u64,
        shards: u64,
    ) -> Rc<SessionUse> {
        let (Session::Sticky(all), false) = (session, rules.is_empty()) else {
            return SessionUse::new(session.number(turn));
        };
        let all = u64::from(all.get());
        let mut sticky = self.sticky.borrow_mut();
        if sticky.is_empty() {
            let step = usize::try_from(shards).unwrap_or(usize::MAX);
            sticky.extend((shard % all..all).step_by(step).map(SessionUse::new));
        }
        let at = usize::try_from(turn / shards).unwrap_or(0) % sticky.len();
        if sticky[at].is_retired() {
            sticky[at] = SessionUse::new(sticky[at].number + all);
        }
        Rc::clone(&sticky[at])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crawlmark_harness::sample::ErrorKind;
    use proptest::prelude::*;

    use super::*;

    const GOOD: (Option<u16>, Outcome) = (Some(200), Outcome::Ok);

    fn rules(texts: &[&str]) -> Vec<RetireAfter> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Number of attempts after which a session is retired, if it is.
    fn retired_after(texts: &[&str], attempts: &[(Option<u16>, Outcome)]) -> Option<usize> {
        let (rules, session) = (rules(texts), SessionUse::new(0));
        let after = attempts
            .iter()
            .position(|ended| session.ended(&rules, ended.0, ended.1))
            .map(|at| at + 1);
        assert_eq!(after.is_some(), session.is_retired());
        after
    }

    #[test]
    fn a_session_is_retired_once_by_the_first_rule_that_is_met() {
        let failed = (None, Outcome::Error(ErrorKind::Timeout));
        let (forbidden, throttled) = (
            (Some(403), Outcome::Rejected),
            (Some(429), Outcome::Throttled),
        );
        assert_eq!(retired_after(&["uses=3"], &[GOOD; 5]), Some(3));
        assert_eq!(
            retired_after(&["uses=6", "errors=2"], &[failed, GOOD, forbidden, GOOD]),
            Some(3)
        );
        assert_eq!(
            retired_after(&["status=403"], &[throttled, failed, forbidden]),
            Some(3)
        );
        assert_eq!(
            retired_after(&["block"], &[GOOD, forbidden, throttled]),
            Some(3)
        );
        assert_eq!(
            retired_after(&["block"], &[(Some(200), Outcome::SoftBlocked)]),
            Some(1)
        );
        assert_eq!(
            retired_after(&["uses=6", "errors=2", "status=403", "block"], &[GOOD; 5]),
            None
        );
        for text in [
            "",
            "uses",
            "uses=0",
            "errors=-1",
            "status=",
            "status=99",
            "block=1",
            "age=3",
        ] {
            assert!(
                text.parse::<RetireAfter>()
                    .unwrap_err()
                    .contains("uses=N, errors=N"),
                "{text}"
            );
        }
        for text in ["uses=3", "errors=2", "status=403,429", "block"] {
            assert_eq!(text.parse::<RetireAfter>().unwrap().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn no_two_shards_share_a_session_and_no_number_comes_back(all in 1..20_u32, shards in 1..8_u64, uses in 1..4_u32) {
            let sticky = Session::Sticky(NonZeroU32::new(all).unwrap());
            let rules = rules(&[&format!("uses={uses}")]);
            let mut seen = BTreeSet::new();
            for shard in 0..shards {
                let (sessions, mut own) = (Sessions::default(), BTreeSet::new());
                let mut ended = BTreeSet::new();
                for turn in (shard..200).step_by(usize::try_from(shards).unwrap()) {
                    let session = sessions.at( sticky, &rules, turn, shard, shards);
                    prop_assert!(!ended.contains(&session.number()), "{} came back", session.number());
                    own.insert(session.number());
                    if session.ended(&rules, GOOD.0, GOOD.1) {
                        ended.insert(session.number());
                    }
                }
                let share = (u64::from(all)).div_ceil(shards).max(1);
                prop_assert!(own.iter().map(|number| number % u64::from(all)).collect::<BTreeSet<_>>().len() as u64 <= share);
                if u64::from(all) >= shards {
                    prop_assert!(own.iter().all(|number| seen.insert(*number)), "shared by two shards");
                }
            }
        }
    }
}
