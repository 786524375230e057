//! `capabilities.txt`: the rights that each route needs, and the callers that they admit. The requests are sent in
//! `matrix`.

use std::collections::BTreeSet;

/// The table, in a form that people can read.
const TABLE: &str = include_str!("../../capabilities.txt");

/// A line of the table.
pub struct Row<'a> {
    pub route: &'a str,
    pub needs: Vec<BTreeSet<&'a str>>,
    pub request: &'a str,
    /// Words after the request.
    flags: BTreeSet<&'a str>,
}

/// The namespace in which a right counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// Namespace in the query.
    Query,
    /// Namespace of the object, whatever the query names.
    Object,
    /// Both namespaces.
    Both,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Self {
        let mut parts = line.splitn(3, " = ");
        let mut part = || parts.next().expect("a row has three parts");
        let (route, needs, mut request) = (part(), part(), part());
        let mut flags = BTreeSet::new();
        while let Some((rest, flag)) = request.rsplit_once(' ').filter(|(_, flag)| FLAGS.contains(flag)) {
            flags.insert(flag);
            request = rest;
        }
        let needs = needs.split(", ").map(|all| all.split('+').collect()).collect();
        Self { route, needs, request, flags }
    }

    pub fn all() -> Vec<Self> {
        TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(Self::parse).collect()
    }

    /// A request that the table does not have.
    pub fn plain(request: &'a str) -> Self {
        Self { route: "", needs: Vec::new(), request, flags: BTreeSet::new() }
    }

    pub fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    pub fn namespace(&self) -> Where {
        match (self.has("object"), self.has("both")) {
            (true, _) => Where::Object,
            (false, true) => Where::Both,
            (false, false) => Where::Query,
        }
    }

    fn needs(&self, word: &str) -> bool {
        self.needs.iter().any(|all| all.contains(word))
    }

    /// Whether the caller has to be admitted; `None`: the table does not say.
    pub fn admits(&self, caller: &Caller) -> Option<bool> {
        if self.needs("anyone") {
            return Some(true);
        }
        let any = |words: &BTreeSet<&str>| self.needs.iter().any(|all| all.iter().all(|need| have(words, need)));
        match caller {
            Caller::Unknown | Caller::Over if self.needs("own") => None,
            Caller::Unknown => Some(self.needs("unknown")),
            Caller::Over => (!self.needs("unknown")).then_some(false),
            Caller::Node if self.needs("known") || self.needs("own") => None,
            Caller::Node => Some(self.needs("node")),
            Caller::Management => Some(true),
            Caller::Task(_) if self.has("token") => Some(false),
            _ if self.needs("known") => Some(true),
            _ if self.needs("own") => None,
            Caller::Task(words) => Some(self.needs("workload") || any(words)),
            Caller::Nobody | Caller::Powerless | Caller::Elsewhere(_) => Some(false),
            Caller::Having(words) => Some(any(words)),
        }
    }
}

const FLAGS: [&str; 5] = ["hidden", "object", "both", "token", "websocket"];

/// Whether a right counts in a namespace.
pub fn is_namespaced(word: &str) -> bool {
    word.starts_with("variables:") || word == "any-of-namespace" || !word.contains(':') && word.contains('-')
}

/// Whether these rights include the needed one.
fn have(words: &BTreeSet<&str>, need: &str) -> bool {
    let includes = |word: &&str| match (*word, need) {
        (word, need) if word == need => true,
        (word, "any-of-namespace") => !word.contains(':'),
        ("plugin:read", "plugin:list") | ("variables:read", "variables:list") => true,
        (word, need) => word
            .strip_suffix(":write")
            .zip(need.strip_suffix(":read"))
            .is_some_and(|(a, b)| a == b && !["pool", "variables"].contains(&a)),
    };
    words.iter().any(includes)
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caller {
    /// Sends no token.
    Nobody,
    /// Has a token for a namespace that does not exist.
    Powerless,
    /// Sends a secret that belongs to no token.
    Unknown,
    /// Sends the secret of a node.
    Node,
    Management,
    /// Has a token with these rights; those of namespaces are in `default`.
    Having(BTreeSet<&'static str>),
    /// Has a token with these rights in the namespace `other`.
    Elsewhere(BTreeSet<&'static str>),
    /// Sends the identity of a running task. The policies of its job grant these rights in `default`.
    Task(BTreeSet<&'static str>),
    /// Sends the identity of a task whose allocation has ended. The policies of its job would grant rights.
    Over,
}
