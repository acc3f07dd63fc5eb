//! Proxies of a run: those of `--proxy`, or of the environment, with their addresses.
//!
//! Environment variables are read as curl reads them, except that localhost and loopback addresses
//! are always connected to directly, and that a port is required. No error may repeat credentials.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::cli::{NO_PROXY, RunArgs};
use crate::crawl::proxy::{Proxies, Proxy, ProxyUrl, turns};
use crate::crawl::{Host, Scheme, Targets};
use crate::error::Error;
use crawlmark_harness::plan::ProxySource;

/// Choose the proxies of a run against `targets`, whose addresses are yet to be looked up; none if
/// every host is connected to directly. The second value is the flag or the variables that name
/// them.
///
/// # Errors
/// When a proxy cannot be used.
pub(super) fn choose_proxies(
    args: &RunArgs,
    targets: &Targets,
) -> Result<Option<(Proxies, ProxySource)>, Error> {
    let hosts = targets.hosts();
    let mut named = Named::default();
    match args.proxy.proxy.as_slice() {
        [] if args.is_bundled() || args.connection.unix_socket.is_some() => {}
        [] => named.add_of_environment(hosts, |name| {
            std::env::var(name).ok().filter(|value| !value.is_empty())
        })?,
        [none] if none == NO_PROXY => {}
        urls => named.add_of_flag(urls, hosts.len())?,
    }
    let Named {
        proxies,
        mut sources,
    } = named;
    sources.dedup();
    let proxies = Proxies {
        session: args.proxy.session.unwrap_or_default(),
        seed: args.seed,
        ..proxies
    };
    let source = if args.proxy.proxy.is_empty() {
        ProxySource::Variables(sources.join(", "))
    } else {
        ProxySource::Flag
    };
    Ok((!sources.is_empty()).then_some((proxies, source)))
}

/// Proxies, and the flag or the variable that names each.
#[derive(Debug, Default)]
struct Named {
    proxies: Proxies,
    sources: Vec<&'static str>,
}

impl Named {
    fn add(&mut self, url: ProxyUrl, source: &'static str) {
        let addresses = Vec::new();
        self.proxies.all.push(Proxy { url, addresses });
        self.sources.push(source);
    }

    fn add_of_flag(&mut self, urls: &[String], hosts: usize) -> Result<(), Error> {
        let mut weights = Vec::new();
        for url in urls {
            if url == NO_PROXY {
                return Err(Error::usage(
                    "--proxy none excludes other proxies: remove it, or remove them",
                ));
            }
            let url: ProxyUrl = url
                .parse()
                .map_err(|error| Error::usage(format!("--proxy: {error}")))?;
            weights.push(url.weight);
            self.add(url, "--proxy");
        }
        self.proxies.lists = vec![turns(&weights)];
        self.proxies.of_host = vec![Some(0); hosts];
        Ok(())
    }

    /// Add proxies as the environment `get` says.
    fn add_of_environment(
        &mut self,
        hosts: &[Host],
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<(), Error> {
        let excluded = get("no_proxy")
            .or_else(|| get("NO_PROXY"))
            .unwrap_or_default();
        for host in hosts {
            // No HTTP_PROXY: a CGI program gets that from the header `Proxy` of its client.
            let variables: &[&str] = match host.scheme {
                Scheme::Http => &["http_proxy", "all_proxy", "ALL_PROXY"],
                Scheme::Https => &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
            };
            let is_direct = is_local(host.name())
                || excluded.split([',', ' ']).any(|rule| excludes(rule, host));
            let Some((variable, value)) = variables
                .iter()
                .find_map(|name| Some((*name, get(name)?)))
                .filter(|_| !is_direct)
            else {
                self.proxies.of_host.push(None);
                continue;
            };
            let known = self.sources.iter().position(|of| *of == variable);
            let number = known.unwrap_or(self.sources.len());
            if known.is_none() {
                let scheme = if value.contains("://") { "" } else { "http://" };
                let url = format!("{scheme}{value}").parse().map_err(|error| {
                    Error::usage(format!(
                        "{variable}: {error}. Correct it, or ignore it with --proxy none"
                    ))
                })?;
                self.add(url, variable);
                self.proxies.lists.push(vec![number]);
            }
            self.proxies.of_host.push(Some(number));
        }
        Ok(())
    }
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
    !name.is_empty() && is_of_domain && port.is_none_or(|port| port.parse() == Ok(host.port))
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
