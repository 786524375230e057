//! Name resolution of a container: the task's own options, and for what they leave open those of its group.

use songline_model::{DnsConfig, Str};

use crate::driver::{TaskConfig, texts};

/// Name resolution of one container.
pub(super) struct Resolver {
    /// Addresses of name servers.
    pub(super) servers: Vec<String>,
    /// Search domains.
    pub(super) searches: Vec<String>,
    /// Options of the resolver.
    pub(super) options: Vec<String>,
}

impl Resolver {
    /// The settings of a task.
    pub(super) fn of(task: &TaskConfig) -> Self {
        let told = |key: &str, of_group: fn(&DnsConfig) -> &Option<Vec<Str>>| -> Vec<String> {
            let own = texts(&task.config, key);
            let shared = task.dns.as_ref().and_then(|dns| of_group(dns).as_ref()).into_iter().flatten();
            if own.is_empty() { shared.map(Str::to_string).collect() } else { own }
        };
        Self {
            servers: told("dns_servers", |dns| &dns.servers),
            searches: told("dns_search_domains", |dns| &dns.searches),
            options: told("dns_options", |dns| &dns.options),
        }
    }

    /// Lines of `/etc/resolv.conf`; none when nothing is set.
    pub(super) fn lines(&self) -> String {
        let mut lines: String = self.servers.iter().map(|server| format!("nameserver {server}\n")).collect();
        for (word, values) in [("search", &self.searches), ("options", &self.options)] {
            if !values.is_empty() {
                lines += &format!("{word} {}\n", values.join(" "));
            }
        }
        lines
    }
}
