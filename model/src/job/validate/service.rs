//! Services of groups and tasks, and their checks.

use std::collections::{BTreeMap, BTreeSet};

use crate::job::errors::Errors;
use crate::{CheckRestart, Dur, Service, ServiceCheck, Str, Task, TaskGroup};

/// Shortest interval and shortest timeout of a check.
const CHECK_SPAN_MIN: Dur = Dur::from_secs(1);

/// Validates the services of a group: each alone, and that their names and those of its tasks' services are distinct.
pub(super) fn of_group(group: &TaskGroup) -> Result<(), Errors> {
    let mut errors = Errors::new();
    let mut taken: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
    let mut repeated: BTreeSet<String> = BTreeSet::new();
    let mut providers: BTreeSet<&str> = BTreeSet::new();
    for task in group.tasks.iter().flatten() {
        for service in task.services.iter().flatten() {
            if !taken.insert((&task.name, &service.name, &service.port_label)) {
                repeated.insert(place_of(&task.name, service));
            }
            providers.insert(&service.provider);
        }
    }
    for (index, service) in group.services.iter().flatten().enumerate() {
        if !taken.insert(("group", &service.name, &service.port_label)) {
            repeated.insert(place_of("group", service));
        }
        providers.insert(&service.provider);
        errors.nest_as(format_args!("Service[{index}] {} validation failed", service.name), service.validate());
        if service.address_mode == "driver" {
            errors.push(format!(
                "service {:?} cannot use address_mode=\"driver\", only services defined in a \"task\" block can use this mode",
                service.name
            ));
        }
        for check in service.checks.iter().flatten() {
            validate_task_of_check(check, group, &mut errors);
        }
    }
    if !repeated.is_empty() {
        let list: Vec<String> = repeated.into_iter().collect();
        errors.push(format!("Services are not unique: [{}]", list.join(" ")));
    }
    if providers.len() > 1 {
        errors.push("Multiple service providers used: task group services must use the same provider");
    }
    errors.into_result()
}

fn place_of(task: &str, service: &Service) -> String {
    let colon = if service.port_label.is_empty() { "" } else { ":" };
    format!("{task}->{}{colon}{}", service.name, service.port_label)
}

fn validate_task_of_check(check: &ServiceCheck, group: &TaskGroup, errors: &mut Errors) {
    if check.task_name.is_empty() {
        return;
    }
    if check.address_mode == "driver" {
        errors.push(format!(
            "Check {:?} invalid: cannot use address_mode=\"driver\", only checks defined in a \"task\" service block can use this mode",
            check.name
        ));
    }
    if group.task(&check.task_name).is_none() {
        errors.push(format!("Check {} invalid: refers to non-existent task {}", check.name, check.task_name));
    }
}

/// A script runs inside a task, so a script check of a group must name the task.
pub(super) fn script_checks_of_group(group: &TaskGroup) -> Result<(), Errors> {
    let mut errors = Errors::new();
    for service in group.services.iter().flatten().filter(|service| service.task_name.is_empty()) {
        for check in service.checks.iter().flatten() {
            if check.kind == "script" && check.task_name.is_empty() {
                errors.push(format!(
                    "Service [{}]->{} or Check {} must specify task parameter",
                    group.name, service.name, check.name
                ));
            }
        }
    }
    errors.into_result()
}

/// Validates the services of a task.
pub(super) fn of_task(task: &Task, group: &TaskGroup) -> Result<(), Errors> {
    let mut errors = Errors::new();
    let mut users: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for (index, service) in task.services.iter().flatten().enumerate() {
        errors.nest_as(format_args!("service[{index}] {:?} validation failed", service.name), service.validate());
        if service.address_mode == "alloc" {
            errors.push(format!(
                "service {:?} cannot use address_mode=\"alloc\", only services defined in a \"group\" block can use this mode",
                service.name
            ));
        }
        if !seen.insert(format!("{}{}", service.name, service.port_label)) {
            errors.push(format!("service {:?} is duplicate", service.name));
        }
        let numbered_driver_port = service.address_mode == "driver" && service.port_label.parse::<i64>().is_ok();
        if !service.port_label.is_empty() && !numbered_driver_port {
            users.entry(&service.port_label).or_default().insert(&service.name);
        }
        if service.connect.is_some() {
            errors.push(format!(
                "service {:?} cannot have \"connect\" block, only services defined in a \"group\" block can",
                service.name
            ));
        }
        validate_checks_of_task(service, &mut users, &mut errors);
    }
    let own = task.resources.iter().flat_map(|resources| resources.networks.iter().flatten());
    let labels: BTreeSet<&str> = group
        .networks
        .iter()
        .flatten()
        .chain(own)
        .flat_map(|network| network.reserved_ports.iter().chain(&network.dynamic_ports).flatten())
        .map(|port| port.label.as_str())
        .collect();
    for (label, services) in users.iter().filter(|(label, _)| !labels.contains(*label)) {
        let names: Vec<&str> = services.iter().copied().collect();
        errors.push(format!("port label {label:?} referenced by services {} does not exist", names.join(", ")));
    }
    errors.into_result()
}

fn validate_checks_of_task<'a>(
    service: &'a Service,
    users: &mut BTreeMap<&'a str, BTreeSet<&'a str>>,
    errors: &mut Errors,
) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for check in service.checks.iter().flatten() {
        if !seen.insert(&check.name) {
            errors.push(format!("check {:?} is duplicate", check.name));
        }
        if check.address_mode == "alloc" {
            errors.push(format!(
                "check {:?} cannot use address_mode=\"alloc\", only checks defined in a \"group\" service block can use this mode",
                check.name
            ));
        }
        if !check.requires_port() {
            continue;
        }
        let port: &Str = if check.port_label.is_empty() { &service.port_label } else { &check.port_label };
        if port.is_empty() {
            errors.push(format!("check {:?} is missing a port", check.name));
            continue;
        }
        match (port.parse::<i64>(), check.address_mode == "driver") {
            (Ok(number), true) => {
                if number <= 0 {
                    errors.push(format!("check {:?} has invalid numeric port {number}", check.name));
                }
            }
            (Ok(number), false) => errors.push(format!(
                "check {:?} cannot use a numeric port {number} without setting address_mode=\"driver\"",
                check.name
            )),
            (Err(_), _) => {
                users.entry(port).or_default().insert(&service.name);
            }
        }
    }
}

impl Service {
    fn validate(&self) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if !is_service_name(&self.name) {
            errors.push(format!(
                "Service name must be valid per RFC 1123 and can contain only alphanumeric characters or dashes \
                 and must be no longer than 63 characters: {:?}",
                self.name
            ));
        }
        match self.address_mode.as_str() {
            "" | "auto" => {}
            "host" | "driver" | "alloc" => {
                if !self.address.is_empty() {
                    errors.push("Service address_mode must be \"auto\" if address is set");
                }
            }
            other => {
                errors.push(format!("Service address_mode must be \"auto\", \"host\", or \"driver\"; not {other:?}"))
            }
        }
        if !is_on_update(&self.on_update) {
            errors.push(format!(
                "Service on_update must be \"require_healthy\", \"ignore_warnings\", or \"ignore\"; not {:?}",
                self.on_update
            ));
        }
        match self.provider.as_str() {
            "" | "consul" => self.validate_mesh(&mut errors),
            "nomad" => {
                for check in self.checks.iter().flatten() {
                    match self.missing_port(check) {
                        Some(error) => errors.push(error),
                        None => errors.extend(check.validate_native()),
                    }
                }
                if self.connect.is_some() {
                    errors.push("Service with provider nomad cannot include Connect blocks");
                }
            }
            other => errors.push(format!("Service provider must be \"consul\", or \"nomad\"; not {other:?}")),
        }
        errors.into_result()
    }

    /// Error of a check that needs a port and has none, neither itself nor from its service.
    fn missing_port(&self, check: &ServiceCheck) -> Option<String> {
        let missing = self.port_label.is_empty() && check.port_label.is_empty() && check.requires_port();
        missing.then(|| {
            format!(
                "Check {} invalid: check requires a port but neither check nor service {:?} have a port",
                check.name, self.name
            )
        })
    }

    fn validate_mesh(&self, errors: &mut Errors) {
        for check in self.checks.iter().flatten() {
            if let Some(error) = self.missing_port(check) {
                errors.push(error);
                continue;
            }
            if let Err(reason) = check.validate_mesh() {
                errors.push(format!("Check {} invalid: {reason}", check.name));
            }
        }
        if let Some(connect) = &self.connect {
            errors.check(connect.validate());
            if connect.native && self.task_name.is_empty() {
                errors.push(format!("Service {} is Connect Native and requires setting the task", self.name));
            }
        }
    }
}

impl ServiceCheck {
    fn requires_port(&self) -> bool {
        matches!(self.kind.as_str(), "grpc" | "http" | "tcp")
    }

    fn validate_mesh(&self) -> Result<(), String> {
        self.validate_common(&["grpc", "tcp", "http", "script"])?;
        if self.expose && !matches!(self.kind.as_str(), "http" | "grpc") {
            return Err("expose may only be set on HTTP or gRPC checks".into());
        }
        for (name, count) in [
            ("success_before_passing", self.success_before_passing),
            ("failures_before_critical", self.failures_before_critical),
        ] {
            if count < 0 {
                return Err(format!("{name} must be non-negative"));
            }
            if count > 0 && self.kind == "script" {
                return Err(format!("{name} not supported for check of type {:?}", self.kind));
            }
        }
        Ok(())
    }

    fn validate_native(&self) -> Result<(), Errors> {
        self.validate_native_fields().map_err(Errors::from)
    }

    fn validate_native_fields(&self) -> Result<(), String> {
        self.validate_common(&["tcp", "http"])?;
        let mesh_only = |field: &str| Err(format!("{field} may only be set for Consul service checks"));
        if self.expose {
            return mesh_only("expose");
        }
        if self.on_update == "ignore_warnings" {
            return Err("on_update may only be set to ignore_warnings for Consul service checks".into());
        }
        if self.check_restart.as_ref().is_some_and(|restart| restart.ignore_warnings) {
            return Err("ignore_warnings on check_restart only supported for Consul service checks".into());
        }
        if self.address_mode == "driver" {
            return mesh_only("address_mode = driver");
        }
        let methods = ["", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"];
        if self.kind == "http" && !methods.contains(&self.method.as_str()) {
            return Err(format!("method type {:?} not supported in Nomad http check", self.method));
        }
        if self.success_before_passing != 0 {
            return mesh_only("success_before_passing");
        }
        if self.failures_before_critical != 0 {
            return mesh_only("failures_before_critical");
        }
        if !self.tls_server_name.is_empty() {
            return mesh_only("tls_server_name");
        }
        if self.tls_skip_verify {
            return mesh_only("tls_skip_verify");
        }
        Ok(())
    }

    /// Validates the fields common to all checks; returns the first error.
    fn validate_common(&self, kinds: &[&str]) -> Result<(), String> {
        if !kinds.contains(&self.kind.as_str()) {
            return Err(format!("invalid check type ({:?}), must be one of {}", self.kind, kinds.join(", ")));
        }
        self.validate_target()?;
        self.validate_spans()?;
        if !matches!(self.initial_status.as_str(), "" | "critical" | "passing" | "warning") {
            return Err(format!(
                "invalid initial check state ({}), must be one of \"passing\", \"warning\", \"critical\" or empty",
                self.initial_status
            ));
        }
        match self.address_mode.as_str() {
            "" | "host" | "driver" | "alloc" => {}
            "auto" => return Err("invalid address_mode \"auto\" - auto only valid for services".into()),
            other => return Err(format!("invalid address_mode {other:?}")),
        }
        if !is_on_update(&self.on_update) {
            return Err(format!(
                "on_update must be \"require_healthy\", \"ignore_warnings\", or \"ignore\"; got {:?}",
                self.on_update
            ));
        }
        let Some(restart) = &self.check_restart else { return Ok(()) };
        if self.on_update == "ignore" {
            return Err("on_update value \"ignore\" is not compatible with check_restart".into());
        }
        if !restart.ignore_warnings && self.on_update == "ignore_warnings" {
            return Err(
                "on_update value \"ignore_warnings\" not supported with check_restart ignore_warnings value \"false\""
                    .into(),
            );
        }
        restart.validate().map_err(|errors| errors.to_string())
    }

    fn validate_target(&self) -> Result<(), String> {
        match self.kind.as_str() {
            "http" if self.path.is_empty() => Err("http type must have http path".into()),
            "http" if is_absolute_url(&self.path) => Err("http type must have relative http path".into()),
            "script" if self.command.is_empty() => Err("script type must have a valid script path".into()),
            _ => Ok(()),
        }
    }

    fn validate_spans(&self) -> Result<(), String> {
        if self.interval == Dur::ZERO {
            return Err(format!("missing required value interval. Interval cannot be less than {CHECK_SPAN_MIN}"));
        }
        if self.interval < CHECK_SPAN_MIN {
            return Err(format!("interval ({}) cannot be lower than {CHECK_SPAN_MIN}", self.interval));
        }
        if self.timeout == Dur::ZERO {
            return Err(format!("missing required value timeout. Timeout cannot be less than {CHECK_SPAN_MIN}"));
        }
        if self.timeout < CHECK_SPAN_MIN {
            return Err(format!("timeout ({}) is lower than required minimum timeout {CHECK_SPAN_MIN}", self.timeout));
        }
        Ok(())
    }
}

impl CheckRestart {
    fn validate(&self) -> Result<(), Errors> {
        let mut errors = Errors::new();
        if self.limit < 0 {
            errors.push(format!("limit must be greater than or equal to 0 but found {}", self.limit));
        }
        if self.grace < Dur::ZERO {
            errors.push(format!("grace period must be greater than or equal to 0 but found {}", self.grace.nanos()));
        }
        errors.into_result()
    }
}

fn is_on_update(word: &str) -> bool {
    matches!(word, "" | "require_healthy" | "ignore_warnings" | "ignore")
}

/// Whether the text starts with the scheme of a URL.
fn is_absolute_url(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

/// Whether the name has only letters, digits and inner dashes, at most 63; a variable counts as one word.
fn is_service_name(name: &str) -> bool {
    let mut plain = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((_, behind)) = after.split_once('}') else { break };
        plain.push_str(before);
        plain.push_str("ENV-VAR");
        rest = behind;
    }
    plain.push_str(rest);
    (1..=63).contains(&plain.len())
        && plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !plain.starts_with('-')
        && !plain.ends_with('-')
}
