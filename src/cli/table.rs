//! The table of the flags of `run`: a row says all that holds for a flag beside how it is parsed
//! and what it does.
//!
//! The group of a flag in `--help`, whether `-h` shows it, what a result records of it, whether the
//! rounds of a study may have it, and whether it may differ when a saved crawl goes on: all of it
//! stands here alone. A flag is recorded only if it has a row, so that no new one can leak its
//! value; a test fails when one has none. A row names its field of [`RunArgs`](super::RunArgs), and those of the
//! plan that it sets, and neither compiles when there is no such field.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use clap::Arg;
use crawlmark_harness::plan::{RunPlan, WorkloadSettings};
use crawlmark_harness::units::IdRange;
use crawlmark_results::studies::differences::{CopyFields, Difference, plan_differences};

use super::built;

/// Name of a field of the arguments of `run`.
macro_rules! arg {
    ($field:ident) => {{
        const _: usize = std::mem::offset_of!($crate::cli::RunArgs, $field);
        stringify!($field)
    }};
    ($part:ident . $field:ident) => {{
        const _: usize = std::mem::offset_of!($crate::cli::RunArgs, $part.$field);
        stringify!($field)
    }};
}
pub(crate) use arg;

/// A field of a plan, as a function that copies it.
macro_rules! field {
    (workload.bundled.$field:ident) => {
        (|to, from| match (&mut to.workload.bundled, &from.workload.bundled) {
            (Some(to), Some(from)) => to.$field.clone_from(&from.$field),
            (to, from) => to.clone_from(from),
        }) as CopyFields
    };
    ($($path:ident).+) => {
        (|to, from| to.$($path).+.clone_from(&from.$($path).+)) as CopyFields
    };
}

/// Treatment in the recorded command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// As typed: no secret is in it.
    AsTyped,
    /// Without the secrets of its query.
    Redacted,
    /// By its name: it may hold a secret.
    Withheld,
    /// Not in a result, whose plan has what depends on the machine, and which nothing is saved from.
    FromPlan,
    /// Left out: it makes no difference to the run.
    Never,
}

/// Values as they were typed, by the names of their fields.
pub type Values = BTreeMap<String, Vec<String>>;

/// What a flag needs to have an effect: without it, the flag is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A URL: the bundled target does not take it.
    Url,
    /// A rate budget.
    Rate,
    /// A recording that is replayed.
    Replay,
    /// Anything but a recording that is replayed.
    NoReplay,
    /// An https:// URL.
    Tls,
    /// A host to which HTTP/2 may be spoken.
    Http2,
    /// Hosts to which HTTP/1.1 alone is spoken.
    Http1,
    /// Connections over TCP.
    Tcp,
    /// A proxy with sessions.
    Session,
    /// A crawl that is saved.
    Saving,
}

impl Need {
    /// Reads after the flag.
    const fn lack(self) -> &'static str {
        match self {
            Self::Url => "is for a URL: give one",
            Self::Rate => "is for a rate budget: add --rate",
            Self::Replay => "is for --arrivals replay: add it",
            Self::NoReplay => {
                "does not work with --arrivals replay, which sends each recorded request once, at its time: leave it out"
            }
            Self::Tls => "is for https:// URLs: give one (without a URL, add --target-tls)",
            Self::Http2 => {
                "needs HTTP/2 or HTTP/3: add --http 2, or --http auto for https:// URLs; or use more connections (-c)"
            }
            Self::Tcp => "does not work with --http 3: add --http 2",
            Self::Http1 => "works with HTTP/1.1 only: add --http 1.1",
            Self::Saving => "is for a crawl that is saved: add --save, --resume or --refresh",
            Self::Session => "needs a --proxy with {session} in its user name or password: add one",
        }
    }
}

/// Use of the value that a plan or a saved crawl has, which may be of somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfFile {
    Taken,
    /// Typed again: it executes, opens a path, a socket or a variable, or says who reads what.
    Typed,
    /// Typed again together with the target, to which it is sent or speaks for its owner.
    TypedWithTarget,
}

/// A flag of `run`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// Name of its field.
    pub(crate) id: &'static str,
    pub(crate) record: Record,
    /// False if a study decides it itself, or over all rounds.
    pub(crate) is_for_rounds: bool,
    /// True if `-h` shows it.
    is_common: bool,
    /// True if a plan records its values as typed, under its own name.
    is_setting: bool,
    of_file: OfFile,
    /// Fields of the plan that it sets.
    fields: &'static [CopyFields],
    needs: &'static [Need],
}

impl Flag {
    const fn common(self) -> Self {
        Self {
            is_common: true,
            ..self
        }
    }

    const fn not_for_rounds(self) -> Self {
        Self {
            is_for_rounds: false,
            ..self
        }
    }

    const fn again(self) -> Self {
        Self {
            of_file: OfFile::Typed,
            ..self
        }
    }

    const fn sent(self) -> Self {
        Self {
            of_file: OfFile::TypedWithTarget,
            ..self
        }
    }

    /// True if the command line in a plan or a saved crawl gives it its value.
    pub(super) fn is_taken(&self) -> bool {
        self.of_file == OfFile::Taken && self.record != Record::Never
    }

    /// True if the target is typed with it.
    pub(super) fn is_sent(&self) -> bool {
        self.of_file == OfFile::TypedWithTarget
    }

    const fn sets(self, fields: &'static [CopyFields]) -> Self {
        Self { fields, ..self }
    }

    const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    /// Copies what it sets from one plan to another.
    fn copy(&self, to: &mut RunPlan, from: &RunPlan) {
        for copy in self.fields {
            copy(to, from);
        }
        if self.is_setting {
            let settings = &mut to.workload.as_typed;
            match from.workload.as_typed.get(self.id) {
                Some(value) => settings.insert(self.id.to_owned(), value.clone()),
                None => settings.remove(self.id),
            };
        }
    }

    /// List the differences between two plans in what it sets.
    fn differences(&self, base: &RunPlan, candidate: &RunPlan) -> Vec<Difference> {
        let mut changed = base.clone();
        self.copy(&mut changed, candidate);
        plan_differences(base, &changed)
    }
}

const fn flag(record: Record, id: &'static str) -> Flag {
    Flag {
        id,
        record,
        is_for_rounds: true,
        is_common: false,
        is_setting: false,
        of_file: OfFile::Taken,
        fields: &[],
        needs: &[],
    }
}

const fn typed(id: &'static str) -> Flag {
    flag(Record::AsTyped, id)
}

/// A flag that a plan records as typed, too.
const fn setting(id: &'static str) -> Flag {
    Flag {
        is_setting: true,
        ..typed(id)
    }
}

const fn redacted(id: &'static str) -> Flag {
    flag(Record::Redacted, id)
}

const fn withheld(id: &'static str) -> Flag {
    flag(Record::Withheld, id).sent()
}

const fn from_plan(id: &'static str) -> Flag {
    flag(Record::FromPlan, id)
}

const fn never(id: &'static str) -> Flag {
    flag(Record::Never, id)
}

/// Flags that are listed together in the help.
struct Group {
    /// Heading; empty for clap's own.
    heading: &'static str,
    /// True if its settings may differ between the sessions of a saved crawl: they change how items
    /// are requested, and not what is requested.
    may_differ: bool,
    flags: &'static [Flag],
}

/// Heading of the flags that a URL excludes.
const BUNDLED: &str = "Bundled target, without a URL";

const GROUPS: [Group; 13] = [
    Group {
        heading: "",
        may_differ: false,
        flags: &[
            redacted(URL)
                .sets(&[field!(target), field!(per_host.hosts)])
                .common(),
            never("color"),
            never("config").not_for_rounds(),
        ],
    },
    Group {
        heading: "Requests",
        may_differ: false,
        flags: &[
            typed(URLS)
                .sets(&[
                    field!(workload.urls),
                    field!(workload.lines),
                    field!(workload.order),
                    field!(target),
                    field!(per_host.hosts),
                ])
                .again()
                .common(),
            typed(REQUESTS_FILE)
                .sets(&[
                    field!(workload.requests_file),
                    field!(workload.lines),
                    field!(workload.order),
                    field!(target),
                    field!(per_host.hosts),
                ])
                .again(),
            typed(arg!(ids))
                .sets(&[field!(ids)])
                .common()
                .needs(&[Need::NoReplay]),
            typed(arg!(requests)).sets(&[field!(ids)]).common(),
            typed(arg!(duration)).sets(&[field!(duration)]).common(),
            typed(arg!(method)).sets(&[field!(workload.method)]),
            withheld(HEADERS).sets(&[field!(workload.headers)]).common(),
            withheld(arg!(body)).sets(&[field!(workload.body_bytes)]),
            typed(arg!(request.body_file))
                .sets(&[field!(workload.body_bytes)])
                .sent(),
            withheld(arg!(request.json_body)).sets(&[field!(workload.body_bytes)]),
            withheld(arg!(request.auth)),
            typed(BEARER).sent(),
            setting(ID_FORMAT).needs(&[Need::Url]),
            typed(arg!(request.shuffle))
                .sets(&[field!(workload.shuffle)])
                .needs(&[Need::NoReplay]),
            typed(arg!(request.compressed)).sets(&[field!(workload.content)]),
            setting(arg!(request.follow)).needs(&[Need::NoReplay]),
            setting(arg!(request.cookies)).needs(&[Need::Http1]),
            typed(arg!(seed)).sets(&[field!(seed)]),
            typed(arg!(expect))
                .sets(&[field!(workload.expect)])
                .common(),
        ],
    },
    Group {
        heading: "Load",
        may_differ: true,
        flags: &[
            from_plan(arg!(shards)).sets(&[field!(shards)]).common(),
            typed(arg!(connections))
                .sets(&[field!(connections)])
                .common(),
            typed(arg!(rate))
                .sets(&[field!(rate), field!(shape)])
                .common()
                .needs(&[Need::NoReplay]),
            typed(arg!(arrivals)).sets(&[field!(arrivals)]).common(),
            setting(arg!(speed)).needs(&[Need::Replay]),
            typed(arg!(queue)).sets(&[field!(queue)]),
            typed(arg!(deadline)).sets(&[field!(deadline)]),
            typed(arg!(objective)).sets(&[field!(objectives)]),
            typed(arg!(pacing)).sets(&[field!(pacing)]),
            typed(arg!(linger)).sets(&[field!(linger)]),
            typed(arg!(warmup)).sets(&[field!(warmup)]).common(),
            typed(arg!(grace)).sets(&[field!(grace)]),
            typed(arg!(burst))
                .sets(&[field!(burst), field!(at_start)])
                .needs(&[Need::Rate]),
            typed(arg!(no_pin)).sets(&[field!(pinning)]),
        ],
    },
    Group {
        heading: "Throttling and retries",
        may_differ: true,
        flags: &[
            typed(arg!(throttling.on_throttle)).sets(&[field!(throttling.on_throttle)]),
            typed(arg!(throttling.robots))
                .sets(&[field!(workload.robots)])
                .needs(&[Need::Url]),
            typed(arg!(throttling.max_pause)).sets(&[field!(throttling.max_pause)]),
            typed(arg!(throttling.adaptive)).sets(&[field!(throttling.adaptive)]),
            typed(arg!(throttling.retries))
                .sets(&[field!(throttling.retries)])
                .needs(&[Need::NoReplay]),
            typed(arg!(retry_on)),
            typed(arg!(throttling.retry_budget)).sets(&[field!(throttling.retry_budget_percent)]),
            typed(arg!(throttling.retries_on_top)).sets(&[field!(throttling.retries_on_top)]),
            typed(arg!(throttling.backoff)).sets(&[field!(throttling.backoff)]),
            typed(arg!(per_host.per_host_connections)).sets(&[field!(per_host.connections)]),
            typed(arg!(per_host.per_host_rate))
                .sets(&[field!(per_host.rate), field!(workload.per_host_rate_from)]),
        ],
    },
    Group {
        heading: "Network",
        may_differ: true,
        flags: &[
            typed(arg!(timeout)).sets(&[field!(timeout)]),
            typed(arg!(connect_timeout)).sets(&[field!(workload.connect_timeout_us)]),
            typed(arg!(disable_keepalive)).sets(&[field!(workload.requests_per_connection)]),
            typed(arg!(max_requests_per_connection))
                .sets(&[field!(workload.requests_per_connection)]),
            setting(arg!(http)),
            typed(arg!(streams))
                .sets(&[field!(streams)])
                .needs(&[Need::Http2]),
            typed(arg!(local_ips))
                .sets(&[field!(workload.local_ips)])
                .again(),
            setting(arg!(connect_to)).again(),
            setting(arg!(connection.unix_socket))
                .again()
                .needs(&[Need::Url, Need::Tcp]),
            setting(arg!(connection.idle_timeout)).needs(&[Need::Http1]),
            setting(arg!(connection.connect_rate)),
            setting(arg!(connection.dns_ttl)),
            setting(arg!(connection.receive_stamps)),
            typed(arg!(connection.trace))
                .sets(&[field!(workload.trace), field!(workload.trace_run)]),
        ],
    },
    Group {
        heading: "Proxy",
        may_differ: true,
        flags: &[
            redacted(PROXY)
                .sets(&[field!(workload.proxy), field!(workload.proxy_from)])
                .again(),
            setting(arg!(proxy.session)).needs(&[Need::Session]),
        ],
    },
    Group {
        heading: "TLS, for https:// URLs",
        may_differ: true,
        flags: &[
            typed(arg!(tls.cacert))
                .sets(&[field!(workload.tls_trust)])
                .again()
                .needs(&[Need::Url, Need::Tls]),
            typed(arg!(tls.insecure))
                .sets(&[field!(workload.tls_trust)])
                .again()
                .needs(&[Need::Tls]),
            setting(arg!(tls.cert))
                .sent()
                .needs(&[Need::Url, Need::Tls]),
            typed(arg!(tls.key)).sent().needs(&[Need::Url, Need::Tls]),
            setting(arg!(tls.tls_resume)).needs(&[Need::Tls, Need::Tcp]),
            setting(arg!(tls.tls_min)).needs(&[Need::Tls, Need::Tcp]),
            setting(arg!(tls.tls_max)).needs(&[Need::Tls, Need::Tcp]),
        ],
    },
    Group {
        heading: "Saving",
        may_differ: false,
        flags: &[
            never(SAVE).not_for_rounds().common(),
            never(arg!(save.resume)).not_for_rounds().common(),
            never(arg!(save.refresh)).not_for_rounds(),
            never(arg!(save.retry)).not_for_rounds(),
            never(arg!(save.save_fields)).not_for_rounds(),
            never(arg!(save.save_bodies)).not_for_rounds(),
            never(arg!(save.max_body)).not_for_rounds(),
            never(arg!(save.durability)).not_for_rounds(),
            from_plan(arg!(save.mode))
                .again()
                .not_for_rounds()
                .needs(&[Need::Saving]),
        ],
    },
    Group {
        heading: "Several machines",
        may_differ: false,
        flags: &[
            never(arg!(part.plan)).not_for_rounds(),
            never(arg!(part.node)).not_for_rounds(),
            never(arg!(part.into)).not_for_rounds(),
        ],
    },
    Group {
        heading: "Results",
        may_differ: true,
        flags: &[
            never(arg!(out)).not_for_rounds().common(),
            typed(arg!(name)),
            typed(arg!(tags)),
            never(arg!(json)).not_for_rounds().common(),
            never(arg!(verbose)),
            never(arg!(latency)),
            never(arg!(no_histogram)),
            never(arg!(exports)).not_for_rounds(),
            never(arg!(png)).not_for_rounds(),
            never(arg!(quiet)).not_for_rounds().common(),
            never(arg!(no_progress)),
            never(arg!(page)).not_for_rounds(),
            never(arg!(metrics)).not_for_rounds(),
            setting(arg!(traits)),
            typed(arg!(diagnose))
                .not_for_rounds()
                .needs(&[Need::Url, Need::NoReplay]),
        ],
    },
    Group {
        heading: "Thresholds",
        may_differ: true,
        flags: &[
            typed(arg!(threshold)).not_for_rounds().common(),
            typed(arg!(stop_unless)).not_for_rounds(),
            typed(arg!(slo_p99)).not_for_rounds(),
            typed(arg!(max_error_rate)).not_for_rounds().common(),
            typed(arg!(k6_exit_codes)),
            typed(arg!(strict)).not_for_rounds().common(),
            typed(arg!(shard_deadline)).sets(&[field!(shard_deadline)]),
        ],
    },
    Group {
        heading: "Target's side",
        may_differ: true,
        flags: &[
            withheld(arg!(probe.target_probe)).again(),
            typed(arg!(probe.target_pid)).again(),
            typed(arg!(probe.target_cgroup)).again(),
            typed(arg!(probe.target_functions)).again(),
        ],
    },
    Group {
        heading: BUNDLED,
        may_differ: true,
        flags: &[
            from_plan(arg!(target_processes)).sets(&[field!(workload.bundled.target_processes)]),
            typed(arg!(target.target_profile)).sets(&[field!(workload.bundled.target_profile)]),
            typed(arg!(target.target_latency)).sets(&[field!(workload.bundled.target_latency)]),
            typed(arg!(target.target_latency_per_in_flight))
                .sets(&[field!(workload.bundled.target_latency_per_in_flight)]),
            typed(arg!(target.target_handshake)).sets(&[field!(workload.bundled.target_handshake)]),
            typed(arg!(target_tls)),
            typed(arg!(target.target_work)).sets(&[field!(workload.bundled.target_work)]),
            typed(arg!(target.target_stall)).sets(&[field!(workload.bundled.target_stall)]),
            typed(arg!(target.target_workers)).sets(&[field!(workload.bundled.target_workers)]),
            typed(arg!(target.target_keep_alive))
                .sets(&[field!(workload.bundled.target_keep_alive)]),
            typed(arg!(target.target_bandwidth)).sets(&[field!(workload.bundled.target_bandwidth)]),
            typed(arg!(target.target_accept)).sets(&[field!(workload.bundled.target_accept)]),
            typed(arg!(target.target_events)).sets(&[field!(workload.bundled.target_events)]),
            typed(arg!(target.target_limits)).sets(&[field!(workload.bundled.target_limit)]),
            typed(arg!(target.target_faults)).sets(&[field!(workload.bundled.target_faults)]),
        ],
    },
];

pub(crate) const URL: &str = arg!(url);
pub(crate) const URLS: &str = arg!(urls);
pub(crate) const REQUESTS_FILE: &str = arg!(requests_file);
pub(super) const ID_FORMAT: &str = arg!(request.id_format);
pub(super) const BEARER: &str = arg!(request.bearer_env);
pub(super) const SAVE: &str = arg!(save.save);
pub(crate) const HEADERS: &str = arg!(headers);
pub(crate) const PROXY: &str = arg!(proxy.proxy);

/// Flags of saving that a plan holds, in words of their own.
pub(crate) const SAVING: [&str; 5] = [
    SAVE,
    arg!(save.save_fields),
    arg!(save.save_bodies),
    arg!(save.max_body),
    arg!(save.durability),
];

/// Arguments that name the target.
pub(crate) const TARGETS: [&str; 3] = [URL, URLS, REQUESTS_FILE];

/// Rows with their groups, in the order of the table.
fn rows() -> impl Iterator<Item = (&'static Group, &'static Flag)> {
    GROUPS
        .iter()
        .flat_map(|group| group.flags.iter().map(move |flag| (group, flag)))
}

/// Find the row of an argument of `run`, by the name of its field.
pub(crate) fn row(id: &str) -> Option<&'static Flag> {
    rows().map(|(_, flag)| flag).find(|flag| flag.id == id)
}

/// Return the flags that set what differs between two plans, by one of their differences.
pub(crate) fn flags_of(difference: &Difference, plans: [&RunPlan; 2]) -> Vec<&'static Flag> {
    let [base, candidate] = plans;
    let is_of = |one: &Difference| one.what == difference.what;
    rows()
        .map(|(_, flag)| flag)
        .filter(|flag| flag.differences(base, candidate).iter().any(is_of))
        .collect()
}

/// Return the name of the first flag among those that were given that sets what differs between two
/// plans, with the difference. One that others follow from comes before them.
pub(crate) fn first_flag_of(
    given: &Values,
    base: &RunPlan,
    candidate: &RunPlan,
) -> Option<(String, Difference)> {
    rows()
        .map(|(_, flag)| flag)
        .filter(|flag| given.contains_key(flag.id))
        .find_map(|flag| {
            let found = flag.differences(base, candidate);
            Some((name_of(flag.id)?, found.into_iter().next()?))
        })
}

/// The arguments of `run`, in the order of the help.
static RUN_ARGUMENTS: LazyLock<Vec<Arg>> = LazyLock::new(|| {
    let program = built();
    let run = program.find_subcommand("run");
    run.into_iter()
        .flat_map(clap::Command::get_arguments)
        .cloned()
        .collect()
});

/// Return the arguments of `run`, in the order of the help.
pub(super) fn run_arguments() -> &'static [Arg] {
    &RUN_ARGUMENTS
}

/// Return the name of an argument of `run` on a command line: its flag, or "the URL".
pub(super) fn name(argument: &Arg) -> String {
    let long = argument.get_long();
    long.map_or_else(|| "the URL".to_owned(), |long| format!("--{long}"))
}

/// Return the name of a flag by that of its field, as in `--header`.
pub(crate) fn name_of(id: &str) -> Option<String> {
    run_arguments()
        .iter()
        .find(|argument| argument.get_id() == id)
        .map(name)
}

/// Refuse the first flag that was given and has a need that is not met.
///
/// # Errors
/// Says what the flag needs.
pub(crate) fn check_needs(given: &Values, is_met: impl Fn(Need) -> bool) -> Result<(), String> {
    for flag in given.keys().filter_map(|id| row(id)) {
        if let Some(need) = flag.needs.iter().find(|need| !is_met(**need)) {
            let flag = name_of(flag.id).unwrap_or_default();
            return Err(format!("{flag} {}, or remove {flag}", need.lack()));
        }
    }
    Ok(())
}

/// Return the settings that a plan records as they were typed.
pub(crate) fn settings(given: &Values) -> impl Iterator<Item = (String, String)> {
    given
        .iter()
        .filter(|(id, _)| row(id).is_some_and(|flag| flag.is_setting))
        .map(|(id, values)| (id.clone(), values.join(", ")))
}

/// Return the settings that have to be the same in each session of a saved crawl: those that no flag
/// sets, too.
pub(crate) fn lasting(settings: WorkloadSettings) -> WorkloadSettings {
    let unset = RunPlan::new("", IdRange { start: 0, end: 1 });
    let mut plan = RunPlan {
        workload: settings,
        ..unset.clone()
    };
    for (_, flag) in rows().filter(|(group, _)| group.may_differ) {
        flag.copy(&mut plan, &unset);
    }
    plan.workload
}

/// Give an argument of `run` what its row says.
pub(super) fn described(argument: Arg) -> Arg {
    let id = argument.get_id().as_str();
    let Some((group, flag)) = rows().find(|(_, flag)| flag.id == id) else {
        return argument;
    };
    // A negative number is refused as the value of its flag.
    let has_value = argument.get_action().takes_values() && argument.get_long().is_some();
    let argument = argument
        .hide_short_help(!flag.is_common)
        .allow_negative_numbers(has_value);
    match group.heading {
        "" => argument,
        // `serve` has the details.
        BUNDLED => argument
            .long_help(None::<&str>)
            .help_heading(BUNDLED)
            .conflicts_with_all(TARGETS),
        heading => argument.help_heading(heading),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::num::NonZeroU64;

    use crawlmark_harness::plan::{
        BundledSettings, ContentForm, HostRateSource, ListOrder, ProxySource, RobotsRule,
        RunNumber, TlsTrust,
    };

    use super::*;

    #[test]
    fn a_flag_that_was_not_given_is_not_named() {
        let given = Values::from([(arg!(ids).to_owned(), Vec::new())]);
        let base = RunPlan::new("", IdRange { start: 0, end: 1 });
        let mut other = base.clone();
        (other.workload.headers, other.seed) = (Some("accept".to_owned()), 2);
        assert_eq!(first_flag_of(&given, &base, &other), None);
        other.ids.end = 2;
        let (flag, difference) = first_flag_of(&given, &base, &other).unwrap();
        assert_eq!((&*flag, &*difference.what), ("--ids", "plan.ids.end"));
        let flags = flags_of(&difference, [&base, &other]);
        let ids: Vec<&str> = flags.iter().map(|flag| flag.id).collect();
        assert_eq!(ids, [arg!(ids), arg!(requests)]);
    }

    /// Without that, a difference would name no flag, and another session of a saved crawl could
    /// not change it.
    #[test]
    fn every_setting_is_set_by_a_flag() {
        let mut all = every_setting();
        let words = rows().map(|(_, flag)| flag).filter(|flag| flag.is_setting);
        all.as_typed = words
            .map(|flag| (flag.id.to_owned(), "x".to_owned()))
            .collect();
        let unset = RunPlan::new("", IdRange { start: 0, end: 1 });
        let full = RunPlan {
            workload: all,
            ..unset.clone()
        };
        let mut copied = unset.clone();
        for (_, flag) in rows() {
            flag.copy(&mut copied, &full);
        }
        // That requests are all the same follows from the URL and the body.
        copied.workload.same_request = true;
        assert_eq!(copied.workload, full.workload);
        let kept = lasting(full.workload);
        assert_eq!(
            (&kept.expect, kept.lines, kept.same_request),
            (&Some("status:204".to_owned()), Some(7), true)
        );
        assert_eq!(kept.as_typed.get(ID_FORMAT).map(String::as_str), Some("x"));
        assert_eq!(kept.as_typed.get(arg!(tls.cert)), None);
        assert_eq!(
            (kept.bundled, kept.tls_trust, kept.proxy, kept.trace_run),
            (None, None, None, None)
        );
    }

    fn every_setting() -> WorkloadSettings {
        let text = || Some("x".to_owned());
        WorkloadSettings {
            body_bytes: Some(1),
            connect_timeout_us: Some(1),
            content: Some(ContentForm::Decoded),
            expect: Some("status:204".to_owned()),
            headers: text(),
            lines: Some(7),
            local_ips: text(),
            method: text(),
            order: Some(ListOrder::ByWeight),
            per_host_rate_from: Some(HostRateSource::CrawlDelay),
            proxy: text(),
            proxy_from: Some(ProxySource::Flag),
            requests_file: text(),
            requests_per_connection: Some(NonZeroU64::MIN),
            robots: Some(RobotsRule::Honor),
            same_request: true,
            shuffle: Some(IdRange { start: 0, end: 9 }),
            bundled: Some(BundledSettings::default()),
            tls_trust: Some(TlsTrust::Unverified),
            trace: Some(0.5),
            trace_run: Some(RunNumber(1)),
            urls: text(),
            as_typed: BTreeMap::new(),
        }
    }

    #[test]
    fn every_flag_of_run_has_one_row() {
        let program = built();
        let run = program.find_subcommand("run").unwrap();
        let arguments: BTreeSet<&str> = run
            .get_arguments()
            .map(|argument| argument.get_id().as_str())
            .filter(|id| *id != "help")
            .collect();
        let listed: Vec<&str> = rows().map(|(_, flag)| flag.id).collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), arguments);
        assert_eq!(listed.len(), arguments.len(), "a flag has two rows");
    }
}
