//! Proxies of a run: those of `--proxy`, or of the environment, with their addresses.
//!
//! Environment variables are read as curl reads them, except that localhost and loopback addresses
//! are always connected to directly, and that a port is required. No error may repeat credentials.

use std::net::IpAddr;

use ipnet::IpNet;

use super::addresses::{find, is_own, keep_families};
use crate::cli::{NO_PROXY, RunArgs};
use crate::crawl::proxy::{Proxies, Proxy, ProxyUrl, turns};
use crate::crawl::{Host, Scheme, Targets};
use crate::error::Error;

/// Choose the proxies of a run against `targets`, and look up their addresses; none if every host is
/// connected to directly. The second value is the flag or the variables that name them.
///
/// # Errors
/// When a proxy cannot be used.
pub(super) fn choose(
    args: &RunArgs,
    targets: &Targets,
) -> Result<Option<(Proxies, String)>, Error> {
    let hosts = targets.hosts();
    let found = match args.proxy.proxy.as_slice() {
        [] if args.is_bundled() || args.connection.unix_socket.is_some() => Found::default(),
        [] => of_environment(hosts, |name| {
            std::env::var(name).ok().filter(|value| !value.is_empty())
        })?,
        [none] if none == NO_PROXY => Found::default(),
        urls => of_flag(urls, hosts.len())?,
    };
    if found.urls.is_empty() {
        return Ok(None);
    }
    let sources = found.sources();
    let mut proxies = found.look_up(args)?;
    if args.is_bundled()
        && !proxies
            .all
            .iter()
            .all(|proxy| proxy.addresses.iter().any(is_own))
    {
        return Err(Error::usage(
            "--proxy: the bundled target listens on this machine alone, where a proxy elsewhere cannot connect to it: use a proxy on \
             this machine, or crawl a URL",
        ));
    }
    if let Some(ips) = &args.local_ips {
        for Proxy { url, addresses } in &mut proxies.all {
            keep_families(ips, url.host(), addresses)?;
        }
    }
    Ok(Some((proxies, sources)))
}

/// URLs of proxies, and which host uses which.
#[derive(Debug, Default)]
struct Found {
    /// URLs, each with the variable that holds it; none if it was typed.
    urls: Vec<(ProxyUrl, Option<&'static str>)>,
    lists: Vec<Vec<usize>>,
    of_host: Vec<Option<usize>>,
}

impl Found {
    /// The flag or the variables that hold the URLs.
    fn sources(&self) -> String {
        let mut sources: Vec<&str> = self
            .urls
            .iter()
            .map(|(_, variable)| variable.unwrap_or("--proxy"))
            .collect();
        sources.dedup();
        sources.join(", ")
    }

    fn look_up(self, args: &RunArgs) -> Result<Proxies, Error> {
        let all = self.urls.into_iter().map(|(url, _)| {
            let addresses = find(url.host(), url.port())?;
            Ok(Proxy { url, addresses })
        });
        Ok(Proxies {
            all: all.collect::<Result<_, Error>>()?,
            lists: self.lists,
            of_host: self.of_host,
            session: args.proxy.session.unwrap_or_default(),
            seed: args.seed,
        })
    }
}

fn of_flag(urls: &[String], hosts: usize) -> Result<Found, Error> {
    let urls = urls.iter().map(|url| {
        if url == NO_PROXY {
            return Err(Error::usage(
                "--proxy none excludes other proxies: remove it, or remove them",
            ));
        }
        url.parse()
            .map(|url: ProxyUrl| (url, None))
            .map_err(|error| Error::usage(format!("--proxy: {error}")))
    });
    let urls = urls.collect::<Result<Vec<_>, _>>()?;
    let weights: Vec<u32> = urls.iter().map(|(url, _)| url.weight()).collect();
    Ok(Found {
        urls,
        lists: vec![turns(&weights)],
        of_host: vec![Some(0); hosts],
    })
}

/// Choose proxies as the environment `get` says.
fn of_environment(hosts: &[Host], get: impl Fn(&str) -> Option<String>) -> Result<Found, Error> {
    let excluded = get("no_proxy")
        .or_else(|| get("NO_PROXY"))
        .unwrap_or_default();
    let mut found = Found::default();
    for host in hosts {
        // No HTTP_PROXY: a CGI program gets that from the header `Proxy` of its client.
        let variables: &[&str] = match host.scheme() {
            Scheme::Http => &["http_proxy", "all_proxy", "ALL_PROXY"],
            Scheme::Https => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        };
        let is_direct =
            is_local(host.name()) || excluded.split([',', ' ']).any(|rule| excludes(rule, host));
        let value = variables
            .iter()
            .find_map(|name| Some((*name, get(name)?)))
            .filter(|_| !is_direct);
        let Some((variable, value)) = value else {
            found.of_host.push(None);
            continue;
        };
        let known = found.urls.iter().position(|(_, of)| *of == Some(variable));
        let number = known.unwrap_or(found.urls.len());
        if known.is_none() {
            let url = if value.contains("://") {
                value
            } else {
                format!("http://{value}")
            };
            found.urls.push((
                url.parse().map_err(|error| {
                    Error::usage(format!(
                        "{variable}: {error}. Correct it, or ignore it with --proxy none"
                    ))
                })?,
                Some(variable),
            ));
            found.lists.push(vec![number]);
        }
        found.of_host.push(Some(number));
    }
    Ok(found)
}

/// True if a host is on this machine by its name.
fn is_local(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// True if a rule of `no_proxy` is for a host: `*`, a domain, an address or a prefix, and perhaps a
/// port.
fn excludes(rule: &str, host: &Host) -> bool {
    if rule == "*" {
        return true;
    }
    if let (Ok(prefix), Ok(ip)) = (rule.parse::<IpNet>(), host.name().parse::<IpAddr>()) {
        return prefix.contains(&ip);
    }
    let (name, port) = match rule.rsplit_once(':') {
        // Of an address of IPv6, unless it stands in brackets.
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        _ => (rule, None),
    };
    let name = name.trim_start_matches(['.', '[']).trim_end_matches(']');
    let rest = host
        .name()
        .len()
        .checked_sub(name.len())
        .and_then(|start| host.name().split_at_checked(start));
    let is_of_domain = rest.is_some_and(|(before, end)| {
        end.eq_ignore_ascii_case(name) && (before.is_empty() || before.ends_with('.'))
    });
    !name.is_empty() && is_of_domain && port.is_none_or(|port| port.parse() == Ok(host.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_no_proxy_are_for_domains_ports_addresses_and_prefixes() {
        for (rule, url, expected) in [
            ("*", "http://a/", true),
            ("a.test", "http://x.a.test/", true),
            ("a.test", "http://xa.test/", false),
            (".a.test", "http://a.test/", true),
            ("a.test:80", "http://a.test/", true),
            ("a.test:81", "http://a.test/", false),
            ("10.0.0.0/8", "http://10.1.2.3/", true),
            ("10.0.0.0/8", "http://11.1.2.3/", false),
            ("10.0.0.0/33", "http://10.1.2.3/", false),
            ("0.0.0.0/0", "http://192.0.2.4/", true),
            ("::1", "http://[::1]/", true),
            ("[::1]:81", "http://[::1]:81/", true),
            ("fd00::/8", "http://[fd00::1]/", true),
            ("", "http://a/", false),
        ] {
            let targets = Targets::one(&url.parse().unwrap()).unwrap();
            assert_eq!(
                excludes(rule, &targets.hosts()[0]),
                expected,
                "{rule} for {url}"
            );
        }
    }
}
