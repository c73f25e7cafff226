//! Finds the NameServers of the production environment as its clients do
//! (`NameServerAddressUtils`, `TopAddressing`, `MQClientInstance`): the addresses in
//! `rocketmq.namesrv.addr` or `NAMESRV_ADDR`, or else a list that an HTTP service has.
//!
//! Names are resolved here, because that can neither be interrupted nor be given a time-out. A
//! look-up that fails leaves the list as it was. It is done again after 10 s, then every 2 min, as
//! by Java's clients; after a failure sooner than theirs.

use std::fmt::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use tracing::{info, warn};

use crate::settings::{Production, Settings};

/// The whole GET, from the name to the last byte.
const GET_LIMIT: Duration = Duration::from_secs(3);
/// Far more servers than any environment has.
const LIST_BYTES: u64 = 64 * 1024;
/// After the first look-up, and after one that failed.
const SOON: Duration = Duration::from_secs(10);
/// After the others.
const LATER: Duration = Duration::from_secs(120);
/// Where the HTTP service listens unless its domain says otherwise.
const DEFAULT_PORT: u16 = 8080;

/// The servers that were found, for the thread that asks them.
#[derive(Default)]
pub(super) struct Servers(ArcSwapOption<Vec<SocketAddr>>);

impl Servers {
    /// What the last look-up found; nothing when the first has not ended by `until`. For the
    /// thread that [`Lookup`] wakes.
    pub(super) fn wait(&self, until: Instant) -> Arc<Vec<SocketAddr>> {
        loop {
            if let Some(servers) = self.0.load_full() {
                return servers;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Arc::default();
            }
            thread::park_timeout(left);
        }
    }

    /// Takes the result of a look-up in; says whether the list is another one.
    fn update(&self, found: Option<Vec<SocketAddr>>) -> bool {
        let known = self.0.load();
        match (&*known, found) {
            (Some(_), None) => return false,
            (Some(known), Some(found)) if **known == found => return false,
            (_, found) => self.0.store(Some(Arc::new(found.unwrap_or_default()))),
        }
        true
    }
}

/// The thread that finds the servers.
pub(super) struct Lookup {
    source: Source,
    servers: Arc<Servers>,
    /// Who waits for the first result.
    asker: Thread,
}

/// Where the addresses come from.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// They are given.
    List(String),
    /// They are what this page says.
    Page(String),
}

impl Lookup {
    pub(super) fn new(settings: &Settings, servers: Arc<Servers>, asker: Thread) -> Self {
        Self {
            source: source(&settings.production, &settings.product_env_name),
            servers,
            asker,
        }
    }

    /// Looks for as long as the process runs.
    pub(super) fn run(self) {
        let mut pause = SOON;
        let mut complained = false;
        loop {
            let found = self.source.addresses();
            if let Err(problem) = &found
                && !complained
            {
                warn!(problem, source = ?self.source, "production NameServers not found");
            }
            complained = found.is_err();
            if self.servers.update(found.ok()) && !complained {
                info!(servers = ?self.servers.0.load(), "production NameServers found");
            }
            self.asker.unpark();
            thread::sleep(pause);
            pause = if complained { SOON } else { LATER };
        }
    }
}

/// An explicit list may be written as a URL, of which the last part counts
/// (`ClientConfig.getNamesrvAddr`). The name of the environment is the client's "unit".
fn source(production: &Production, environment: &str) -> Source {
    if let Some(list) = &production.namesrv_addr {
        let list = list.rsplit_once('/').map_or(&**list, |(_, list)| list);
        return Source::List(list.to_owned());
    }
    let Production {
        domain, subgroup, ..
    } = production;
    let mut url = format!("http://{domain}");
    // Writing to a String cannot fail.
    if !domain.contains(':') {
        let _ = write!(url, ":{DEFAULT_PORT}");
    }
    let _ = write!(url, "/rocketmq/{subgroup}");
    if !environment.trim().is_empty() {
        let _ = write!(url, "-{environment}?nofix=1");
    }
    Source::Page(url)
}

impl Source {
    fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        match self {
            Self::List(list) => resolve(list),
            Self::Page(url) => {
                let page = get(url)?;
                resolve(page.trim().lines().next().unwrap_or_default())
            }
        }
    }
}

fn get(url: &str) -> Result<String, String> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(GET_LIMIT))
        // As Java, which knows no `http_proxy`.
        .proxy(None)
        .build();
    let agent = ureq::Agent::from(config);
    let mut page = agent.get(url).call().map_err(|error| error.to_string())?;
    if page.status() != 200 {
        return Err(format!("status {}", page.status()));
    }
    let body = page.body_mut().with_config().limit(LIST_BYTES);
    body.read_to_string().map_err(|error| error.to_string())
}

/// The addresses of `host:port;host:port`; those that cannot be found out are left out, unless
/// none is left.
fn resolve(list: &str) -> Result<Vec<SocketAddr>, String> {
    let mut servers = Vec::new();
    let mut problems = String::new();
    let entries = list.split(';').map(str::trim).filter(|e| !e.is_empty());
    for entry in entries {
        match entry.to_socket_addrs() {
            Ok(found) => servers.extend(found),
            Err(error) => {
                let _ = write!(problems, "; {entry:?}: {error}");
            }
        }
    }
    if servers.is_empty() {
        return Err(format!("no address in the list{problems}"));
    }
    Ok(servers)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn page(domain: &str, subgroup: &str, environment: &str) -> Source {
        let production = Production {
            namesrv_addr: None,
            domain: domain.to_owned(),
            subgroup: subgroup.to_owned(),
        };
        source(&production, environment)
    }

    #[test]
    fn the_page_is_where_java_clients_look() {
        let url = |url: &str| Source::Page(url.to_owned());
        let defaults = Settings::default();
        assert_eq!(
            source(&defaults.production, &defaults.product_env_name),
            url("http://jmenv.tbsite.net:8080/rocketmq/nsaddr-center?nofix=1")
        );
        assert_eq!(
            page("10.0.0.1:80", "grp", "prod"),
            url("http://10.0.0.1:80/rocketmq/grp-prod?nofix=1")
        );
        assert_eq!(
            page("names", "nsaddr", " "),
            url("http://names:8080/rocketmq/nsaddr")
        );
    }

    #[test]
    fn a_given_list_is_asked_for_nowhere() {
        let mut production = Settings::default().production;
        for given in [
            "1.2.3.4:9876;1.2.3.5:9876",
            "http://1.2.3.4:9876;1.2.3.5:9876",
        ] {
            production.namesrv_addr = Some(given.to_owned());
            let list = "1.2.3.4:9876;1.2.3.5:9876".to_owned();
            assert_eq!(source(&production, "center"), Source::List(list));
        }
    }

    #[test]
    fn a_list_is_as_good_as_its_best_entry() {
        let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(
            resolve(" 127.0.0.1:1; [::1]:2;;127.0.0.1 "),
            Ok(vec![addr("127.0.0.1:1"), addr("[::1]:2")])
        );
        assert!(resolve("").is_err());
        let error = resolve("127.0.0.1").unwrap_err();
        assert!(error.contains("\"127.0.0.1\""), "{error}");
    }

    #[test]
    fn a_failed_look_up_keeps_the_list() {
        let servers = Servers::default();
        let now = Instant::now();
        assert!(servers.wait(now).is_empty() && servers.0.load().is_none());
        assert!(servers.update(None), "known to be empty");
        let list = vec![SocketAddr::from(([127, 0, 0, 1], 1))];
        assert!(servers.update(Some(list.clone())));
        assert!(!servers.update(Some(list.clone())));
        assert!(!servers.update(None));
        assert_eq!(*servers.wait(now), list);
    }
}
