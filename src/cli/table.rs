//! The table of the flags of `run`: a row says all that holds for a flag beside how it is parsed
//! and what it does.
//!
//! The group of a flag in `--help`, whether `-h` shows it, what a result records of it, whether the
//! rounds of a study may have it, and whether it may differ when a saved crawl goes on: all of it
//! stands here alone. A flag is recorded only if it has a row, so that no new one can leak its
//! value; a test fails when one has none.

use std::collections::BTreeMap;

use clap::Arg;

use super::built;

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
    /// Keys of the settings that it sets in a plan, if they are not its own name.
    keys: &'static [&'static str],
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

    const fn sets(self, keys: &'static [&'static str]) -> Self {
        Self { keys, ..self }
    }

    const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    /// True if it sets a key of `result.json`, or a part of it, as in `plan.rate.permits`.
    fn is_of(&self, key: &str) -> bool {
        let key = key.strip_prefix("plan.").unwrap_or(key);
        let groups = ["workload.", "throttling."];
        let key = groups
            .iter()
            .find_map(|group| key.strip_prefix(group))
            .unwrap_or(key);
        let stem = key.split('.').next().unwrap_or_default();
        let is_own = stem.strip_suffix("_us").unwrap_or(stem) == self.id;
        is_own || self.keys.iter().any(|own| [key, stem].contains(own))
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
        keys: &[],
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
            redacted(URL).common().sets(&["target", "per_host.hosts"]),
            never("color"),
            never("config").not_for_rounds(),
        ],
    },
    Group {
        heading: "Requests",
        may_differ: false,
        flags: &[
            typed(URLS).again().common().sets(&["lines", "order"]),
            typed(REQUESTS_FILE).again().sets(&["lines", "order"]),
            typed("ids").common().needs(&[Need::NoReplay]),
            typed("requests").common().sets(&["ids"]),
            typed("duration").common(),
            typed("method"),
            withheld(HEADERS).common(),
            withheld("body").sets(&["body_bytes"]),
            typed("body_file").sent().sets(&["body_bytes"]),
            withheld("json_body").sets(&["body_bytes"]),
            withheld("auth"),
            typed(BEARER).sent(),
            setting(ID_FORMAT).needs(&[Need::Url]),
            typed("shuffle").needs(&[Need::NoReplay]),
            typed("compressed").sets(&["content"]),
            setting("follow").needs(&[Need::NoReplay]),
            setting("cookies").needs(&[Need::Http1]),
            typed("seed"),
            typed("expect").common(),
        ],
    },
    Group {
        heading: "Load",
        may_differ: true,
        flags: &[
            from_plan("shards").common(),
            typed("connections").common(),
            typed("rate")
                .common()
                .sets(&["shape"])
                .needs(&[Need::NoReplay]),
            typed("arrivals").common(),
            setting("speed").needs(&[Need::Replay]),
            typed("queue"),
            typed("pacing"),
            typed("linger"),
            typed("warmup").common(),
            typed("grace"),
            typed("burst").needs(&[Need::Rate]),
            typed("no_pin"),
        ],
    },
    Group {
        heading: "Throttling and retries",
        may_differ: true,
        flags: &[
            typed("on_throttle"),
            typed("robots").needs(&[Need::Url]),
            typed("max_pause"),
            typed("adaptive"),
            typed("retries").needs(&[Need::NoReplay]),
            typed("retry_on"),
            typed("retry_budget").sets(&["retry_budget_percent"]),
            typed("backoff"),
            typed("per_host_connections").sets(&["per_host.connections"]),
            typed("per_host_rate").sets(&["per_host.rate", "per_host_rate_from"]),
        ],
    },
    Group {
        heading: "Network",
        may_differ: true,
        flags: &[
            typed("timeout"),
            typed("connect_timeout"),
            typed("disable_keepalive").sets(&["requests_per_connection"]),
            typed("max_requests_per_connection").sets(&["requests_per_connection"]),
            setting("http"),
            typed("streams").needs(&[Need::Http2]),
            typed("local_ips").again(),
            setting("connect_to").again(),
            setting("unix_socket")
                .again()
                .needs(&[Need::Url, Need::Tcp]),
            setting("idle_timeout").needs(&[Need::Http1]),
            setting("connect_rate"),
            setting("dns_ttl"),
            setting("receive_stamps"),
            setting("trace").sets(&["trace_run"]),
        ],
    },
    Group {
        heading: "Proxy",
        may_differ: true,
        flags: &[
            redacted(PROXY).again().sets(&["proxy_from"]),
            setting("session").needs(&[Need::Session]),
        ],
    },
    Group {
        heading: "TLS, for https:// URLs",
        may_differ: true,
        flags: &[
            typed("cacert")
                .again()
                .sets(&["tls_trust"])
                .needs(&[Need::Url, Need::Tls]),
            typed("insecure")
                .again()
                .sets(&["tls_trust"])
                .needs(&[Need::Tls]),
            setting("cert").sent().needs(&[Need::Url, Need::Tls]),
            typed("key").sent().needs(&[Need::Url, Need::Tls]),
            setting("tls_resume").needs(&[Need::Tls, Need::Tcp]),
            setting("tls_min").needs(&[Need::Tls, Need::Tcp]),
            setting("tls_max").needs(&[Need::Tls, Need::Tcp]),
        ],
    },
    Group {
        heading: "Saving",
        may_differ: false,
        flags: &[
            never(SAVE).not_for_rounds().common(),
            never("resume").not_for_rounds().common(),
            never("refresh").not_for_rounds(),
            never("retry").not_for_rounds(),
            never("save_fields").not_for_rounds(),
            never("save_bodies").not_for_rounds(),
            never("max_body").not_for_rounds(),
            never("durability").not_for_rounds(),
            from_plan("mode")
                .again()
                .not_for_rounds()
                .needs(&[Need::Saving]),
        ],
    },
    Group {
        heading: "Several machines",
        may_differ: false,
        flags: &[
            never("plan").not_for_rounds(),
            never("node").not_for_rounds(),
            never("into").not_for_rounds(),
        ],
    },
    Group {
        heading: "Results",
        may_differ: true,
        flags: &[
            never("out").not_for_rounds().common(),
            typed("name"),
            typed("tags"),
            never("json").not_for_rounds().common(),
            never("verbose"),
            never("latency"),
            never("no_histogram"),
            never("exports").not_for_rounds(),
            never("png").not_for_rounds(),
            never("quiet").not_for_rounds().common(),
            never("no_progress"),
            never("page").not_for_rounds(),
            never("metrics").not_for_rounds(),
            typed("diagnose")
                .not_for_rounds()
                .needs(&[Need::Url, Need::NoReplay]),
        ],
    },
    Group {
        heading: "Thresholds",
        may_differ: true,
        flags: &[
            typed("threshold").not_for_rounds().common(),
            typed("stop_unless").not_for_rounds(),
            typed("slo_p99").not_for_rounds(),
            typed("max_error_rate").not_for_rounds().common(),
            typed("k6_exit_codes"),
            typed("strict").not_for_rounds().common(),
            typed("shard_deadline"),
        ],
    },
    Group {
        heading: "Target's side",
        may_differ: true,
        flags: &[
            withheld("target_probe").again(),
            typed("target_pid").again(),
            typed("target_cgroup").again(),
        ],
    },
    Group {
        heading: BUNDLED,
        may_differ: true,
        flags: &[
            from_plan("target_processes"),
            typed("target_profile"),
            typed("target_latency"),
            typed("target_latency_per_in_flight"),
            typed("target_handshake"),
            typed("target_tls"),
            typed("target_work"),
            typed("target_stall"),
            typed("target_workers"),
            typed("target_keep_alive"),
            typed("target_bandwidth"),
            typed("target_accept"),
            typed("target_events"),
            typed("target_limits").sets(&["target_limit"]),
            typed("target_faults"),
        ],
    },
];

pub(crate) const URL: &str = "url";
pub(crate) const URLS: &str = "urls";
pub(crate) const REQUESTS_FILE: &str = "requests_file";
pub(super) const ID_FORMAT: &str = "id_format";
pub(super) const BEARER: &str = "bearer_env";
pub(super) const SAVE: &str = "save";
pub(crate) const HEADERS: &str = "headers";
pub(crate) const PROXY: &str = "proxy";

/// Flags of saving that a plan holds, in words of their own.
pub(crate) const SAVING: [&str; 5] = [SAVE, "save_fields", "save_bodies", "max_body", "durability"];

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

/// Return the names of the flags that set a key of `result.json`, as in `--header`.
pub(crate) fn flags_of(key: &str) -> Vec<String> {
    rows()
        .map(|(_, flag)| flag)
        .filter(|flag| flag.is_of(key))
        .filter_map(|flag| name_of(flag.id))
        .collect()
}

/// Return the name of the first flag among those that were given that sets one of these keys. One
/// that others follow from comes before them.
pub(crate) fn first_flag_of(keys: &[String], given: &Values) -> Option<String> {
    let mut flags = rows().map(|(_, flag)| flag);
    let flag =
        flags.find(|flag| given.contains_key(flag.id) && keys.iter().any(|key| flag.is_of(key)))?;
    name_of(flag.id)
}

/// Return the arguments of `run`, in the order of the help.
pub(super) fn run_arguments() -> Vec<Arg> {
    let program = built();
    let run = program.find_subcommand("run");
    run.into_iter()
        .flat_map(clap::Command::get_arguments)
        .cloned()
        .collect()
}

/// Return the name of an argument of `run` on a command line: its flag, or "the URL".
pub(super) fn name(argument: &Arg) -> String {
    let long = argument.get_long();
    long.map_or_else(|| "the URL".to_owned(), |long| format!("--{long}"))
}

/// Return the name of a flag by that of its field, as in `--header`.
pub(super) fn name_of(id: &str) -> Option<String> {
    let arguments = run_arguments();
    arguments
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

/// True if a setting of a plan may differ between the sessions of a saved crawl; a setting that no
/// flag has may not.
pub(crate) fn may_differ(key: &str) -> bool {
    rows().any(|(group, flag)| group.may_differ && flag.is_of(key))
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

    use super::*;

    #[test]
    fn a_flag_that_was_not_given_is_not_named() {
        let given = Values::from([("ids".to_owned(), Vec::new())]);
        let named = |keys: &[&str]| {
            let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            first_flag_of(&keys, &given)
        };
        assert_eq!(named(&["ids", "shuffle"]).as_deref(), Some("--ids"));
        assert_eq!(named(&["headers", "shuffle"]), None);
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
