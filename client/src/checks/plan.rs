//! Requests of checks, from services with resolved texts.

use md5::{Digest, Md5};
use reqwest::Url;
use songline_model::{Allocation, Dur, Service, ServiceCheck, Str};

use crate::artifact::hex;
use crate::core::{CheckMode, CheckPlan, CheckRequest, NOMAD_PROVIDER, Workload};
use crate::driver::DriverNetwork;
use crate::env::TaskEnv;
use crate::services::address::{self, Located};

/// Shortest interval and timeout; admission refuses shorter ones.
const SHORTEST: Dur = Dur::from_secs(1);
/// Longest timeout of one run.
const TIMEOUT_MAX: Dur = Dur::from_mins(10);

/// Checks of an allocation's services that the servers keep. Those of the group's services see the environment that all
/// tasks share; those of tasks stay as they are written.
/// `of_task` has the networks in which drivers run tasks.
pub(crate) fn plans(
    located: Located<'_>,
    group_env: &TaskEnv,
    of_task: &dyn Fn(&str) -> Option<DriverNetwork>,
) -> Vec<CheckPlan> {
    let alloc = located.alloc;
    let plan = |of: &Workload, service: &Service| -> Vec<CheckPlan> {
        let resolve = |text: &Str| match of {
            Workload::Group => Str::from(group_env.replace(text)),
            Workload::Task(_) => text.clone(),
        };
        let driver = match of {
            Workload::Group => None,
            Workload::Task(task) => of_task(task),
        };
        let located = Located { driver: driver.as_ref(), ..located };
        let checks = service.checks.iter().flatten();
        checks.map(|check| check_plan(located, of, service, check, &resolve)).collect()
    };
    let of_workload =
        |of: Workload| of.services_of(alloc, NOMAD_PROVIDER).flat_map(|service| plan(&of, service)).collect::<Vec<_>>();
    Workload::all(alloc).into_iter().flat_map(of_workload).collect()
}

fn check_plan(
    located: Located<'_>,
    of: &Workload,
    service: &Service,
    check: &ServiceCheck,
    resolve: &dyn Fn(&Str) -> Str,
) -> CheckPlan {
    let alloc = located.alloc;
    let own_name = resolve(&service.name);
    let name = match resolve(&check.name) {
        name if name.is_empty() => format!("service: {:?} check", own_name.as_str()).into(),
        name => name,
    };
    let request = request(located, service, check, resolve).unwrap_or_else(CheckRequest::Impossible);
    CheckPlan {
        id: id(alloc, of, &own_name, &name, check, &request),
        of: of.clone(),
        group: alloc.name.clone(),
        service: own_name,
        name,
        mode: if check.on_update == "ignore" { CheckMode::Readiness } else { CheckMode::Healthiness },
        interval: check.interval.max(SHORTEST),
        timeout: check.timeout.clamp(SHORTEST, TIMEOUT_MAX),
        restart: check.check_restart.clone(),
        request,
    }
}

/// The request of a check; the error is the reason why there is none.
fn request(
    located: Located<'_>,
    service: &Service,
    check: &ServiceCheck,
    resolve: &dyn Fn(&Str) -> Str,
) -> Result<CheckRequest, Str> {
    let label = if check.port_label.is_empty() { &service.port_label } else { &check.port_label };
    let address = resolve(&service.address);
    let mode = match check.address_mode.as_str() {
        "" if address.is_empty() => "host",
        "" => "auto",
        other => other,
    };
    let (host, port) = address::of(located, &address, mode, &resolve(label))?;
    let place = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    match check.kind.as_str() {
        "tcp" => Ok(CheckRequest::Tcp { address: place.into() }),
        "http" => http(check, &place, resolve),
        other => Err(format!("checks of type {other:?} are not supported").into()),
    }
}

fn http(check: &ServiceCheck, place: &str, resolve: &dyn Fn(&Str) -> Str) -> Result<CheckRequest, Str> {
    let scheme = match resolve(&check.protocol) {
        scheme if scheme.is_empty() => Str::new_static("http"),
        scheme => scheme,
    };
    if !matches!(scheme.as_str(), "http" | "https") {
        return Err(format!("check protocol {:?} is not supported", scheme.as_str()).into());
    }
    let method = match resolve(&check.method).to_uppercase() {
        method if method.is_empty() => "GET".to_owned(),
        method => method,
    };
    let headers = check.header.iter().flatten().flat_map(|(name, values)| {
        values.iter().flatten().map(|value| (resolve(name), resolve(value))).collect::<Vec<_>>()
    });
    Ok(CheckRequest::Http {
        method: method.into(),
        url: url(&scheme, place, &resolve(&check.path))?,
        headers: headers.collect(),
        body: resolve(&check.body),
    })
}

/// Joins a path to the place of a service. The place may lack a host, which an address of its own cannot.
fn url(scheme: &str, place: &str, path: &str) -> Result<Str, Str> {
    let invalid = |error: &dyn std::fmt::Display| Str::from(format!("invalid check path {path:?}: {error}"));
    let anywhere = Url::parse(&format!("{scheme}://check.invalid")).map_err(|error| invalid(&error))?;
    let joined = anywhere.join(path).map_err(|error| invalid(&error))?;
    if joined.origin() != anywhere.origin() || !joined.username().is_empty() || joined.password().is_some() {
        return Err(invalid(&"it names another host"));
    }
    let query = joined.query().map(|query| format!("?{query}")).unwrap_or_default();
    Ok(format!("{scheme}://{place}{}{query}", joined.path()).into())
}

/// Identity of a check: equal for equal checks of an allocation, whatever version of the job they come from.
fn id(
    alloc: &Allocation,
    of: &Workload,
    service: &str,
    name: &str,
    check: &ServiceCheck,
    request: &CheckRequest,
) -> Str {
    let workload = match of {
        Workload::Group => "",
        Workload::Task(task) => task,
    };
    let all = format!(
        "{:?}",
        (
            alloc.id,
            &alloc.task_group,
            (workload, service, name, &check.kind, &check.port_label, &check.on_update, &check.address_mode),
            (check.interval, check.timeout, request),
        )
    );
    hex(&Md5::digest(all.as_bytes())).into()
}
