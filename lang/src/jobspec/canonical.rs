//! Defaults of the request form, which an agent fills into a job before sending it to a server. The model crate has
//! the server's defaults and the validation.

use serde_json::{Value as Json, json};

use super::Object;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// Fills in all absent members.
pub(super) fn job(job: &mut Object) {
    fill(job, &[("ID", json!("")), ("ParentID", json!("")), ("Namespace", json!("default")), ("Priority", json!(50))]);
    let id = job.get("ID").cloned().unwrap_or_default();
    fill(
        job,
        &[
            ("Name", id),
            ("Stop", json!(false)),
            ("Region", json!("global")),
            ("NodePool", json!("")),
            ("Type", json!("service")),
            ("AllAtOnce", json!(false)),
            ("ConsulToken", json!("")),
            ("ConsulNamespace", json!("")),
            ("VaultToken", json!("")),
            ("VaultNamespace", json!("")),
            ("NomadTokenID", json!("")),
            ("Status", json!("")),
            ("StatusDescription", json!("")),
            ("Stable", json!(false)),
            ("Version", json!(0)),
            ("CreateIndex", json!(0)),
            ("ModifyIndex", json!(0)),
            ("JobModifyIndex", json!(0)),
        ],
    );
    let kind = text(job, "Type");
    within(job, "Periodic", |periodic| {
        fill(
            periodic,
            &[
                ("Enabled", json!(true)),
                ("Spec", json!("")),
                ("Specs", json!([])),
                ("SpecType", json!("cron")),
                ("ProhibitOverlap", json!(false)),
                ("TimeZone", json!("UTC")),
            ],
        );
    });
    if kind == "service" {
        fill(job, &[("Update", json!({}))]);
    }
    within(job, "Update", update);
    within(job, "Multiregion", multiregion);
    each(job, "Spreads", |spread| fill(spread, &[("Weight", json!(50))]));
    each(job, "Affinities", affinity);
    let above = Above {
        name: text(job, "Name"),
        kind,
        update: job.get("Update").cloned(),
        reschedule: job.get("Reschedule").cloned(),
        migrate: job.get("Migrate").cloned(),
    };
    each(job, "TaskGroups", |group| self::group(group, &above));
}

/// Values that groups take from their job.
struct Above {
    name: String,
    kind: String,
    update: Option<Json>,
    reschedule: Option<Json>,
    migrate: Option<Json>,
}

// ---- groups

fn group(group: &mut Object, job: &Above) {
    let least = group.get("Scaling").and_then(|scaling| scaling.get("Min")).filter(|min| !min.is_null()).cloned();
    fill(group, &[("Name", json!("")), ("Count", least.unwrap_or_else(|| json!(1)))]);
    let count = group.get("Count").cloned().unwrap_or_default();
    within(group, "Scaling", |scaling| {
        fill(scaling, &[("Enabled", json!(true)), ("Min", count.clone()), ("Type", json!("horizontal"))]);
    });
    fill(group, &[("EphemeralDisk", json!({})), ("Consul", json!({}))]);
    within(group, "EphemeralDisk", |disk| {
        fill(disk, &[("Sticky", json!(false)), ("Migrate", json!(false)), ("SizeMB", json!(300))]);
    });
    within(group, "Consul", |consul| fill(consul, &[("Namespace", json!(""))]));
    inherit(group, "Update", job.update.as_ref());
    within(group, "Update", update);
    inherit(group, "ReschedulePolicy", job.reschedule.as_ref());
    if job.kind != "system" {
        fill(group, &[("ReschedulePolicy", json!({}))]);
    }
    within(group, "ReschedulePolicy", |policy| reschedule(policy, &job.kind));
    inherit(group, "Migrate", job.migrate.as_ref());
    if job.kind == "service" {
        fill(group, &[("Migrate", json!({}))]);
    }
    within(group, "Migrate", |migrate| {
        fill(
            migrate,
            &[
                ("MaxParallel", json!(1)),
                ("HealthCheck", json!("checks")),
                ("MinHealthyTime", json!(10 * SECOND)),
                ("HealthyDeadline", json!(5 * MINUTE)),
            ],
        );
    });
    fill(group, &[("RestartPolicy", json!({}))]);
    within(group, "RestartPolicy", |policy| restart(policy, &job.kind));
    each(group, "Spreads", |spread| fill(spread, &[("Weight", json!(50))]));
    each(group, "Affinities", affinity);
    let name = text(group, "Name");
    let policy = group.get("RestartPolicy").cloned();
    each(group, "Tasks", |task| self::task(task, &job.name, &name, policy.as_ref()));
    let service_name = format!("{}-{name}", job.name);
    each(group, "Services", |service| self::service(service, &service_name));
}

fn update(update: &mut Object) {
    fill(
        update,
        &[
            ("Stagger", json!(30 * SECOND)),
            ("MaxParallel", json!(1)),
            ("HealthCheck", json!("checks")),
            ("MinHealthyTime", json!(10 * SECOND)),
            ("HealthyDeadline", json!(5 * MINUTE)),
            ("ProgressDeadline", json!(10 * MINUTE)),
            ("AutoRevert", json!(false)),
            ("AutoPromote", json!(false)),
            ("Canary", json!(0)),
        ],
    );
}

fn reschedule(policy: &mut Object, kind: &str) {
    let (attempts, interval, delay, function, longest, unlimited) = match kind {
        "service" => (0, 0, 30 * SECOND, "exponential", HOUR, true),
        "batch" => (1, 24 * HOUR, 5 * SECOND, "constant", 0, false),
        _ => (0, 0, 0, "", 0, false),
    };
    fill(
        policy,
        &[
            ("Attempts", json!(attempts)),
            ("Interval", json!(interval)),
            ("Delay", json!(delay)),
            ("DelayFunction", json!(function)),
            ("MaxDelay", json!(longest)),
            ("Unlimited", json!(unlimited)),
        ],
    );
}

fn restart(policy: &mut Object, kind: &str) {
    let (attempts, interval) = match kind {
        "service" | "system" => (2, 30 * MINUTE),
        _ => (3, 24 * HOUR),
    };
    fill(
        policy,
        &[
            ("Attempts", json!(attempts)),
            ("Interval", json!(interval)),
            ("Delay", json!(15 * SECOND)),
            ("Mode", json!("fail")),
            ("RenderTemplates", json!(false)),
        ],
    );
}

fn affinity(affinity: &mut Object) {
    fill(affinity, &[("Weight", json!(50))]);
}

fn multiregion(multiregion: &mut Object) {
    fill(multiregion, &[("Strategy", json!({})), ("Regions", json!([]))]);
    within(multiregion, "Strategy", |strategy| fill(strategy, &[("MaxParallel", json!(0)), ("OnFailure", json!(""))]));
    each(multiregion, "Regions", |region| {
        fill(region, &[("Count", json!(1)), ("Datacenters", json!([])), ("Meta", json!({}))]);
    });
}

// ---- tasks

fn task(task: &mut Object, job: &str, group: &str, policy: Option<&Json>) {
    fill(task, &[("Name", json!("")), ("Resources", json!({})), ("KillTimeout", json!(5 * SECOND)), ("LogConfig", json!({}))]);
    within(task, "Resources", resources);
    within(task, "LogConfig", |logs| {
        fill(logs, &[("MaxFiles", json!(10)), ("MaxFileSizeMB", json!(10)), ("Disabled", json!(false)), ("Enabled", Json::Null)]);
    });
    each(task, "Artifacts", artifact);
    within(task, "Vault", |vault| {
        fill(
            vault,
            &[
                ("Env", json!(true)),
                ("DisableFile", json!(false)),
                ("Namespace", json!("")),
                ("ChangeMode", json!("restart")),
                ("ChangeSignal", json!("SIGHUP")),
            ],
        );
    });
    each(task, "Templates", template);
    each(task, "Affinities", affinity);
    each(task, "VolumeMounts", |mount| fill(mount, &[("PropagationMode", json!("private")), ("ReadOnly", json!(false))]));
    let no_hook = task.get("Lifecycle").is_some_and(|lifecycle| lifecycle.get("Hook") == Some(&json!("")));
    if no_hook && task.get("Lifecycle").is_some_and(|lifecycle| lifecycle.get("Sidecar") != Some(&json!(true))) {
        task.insert("Lifecycle".to_string(), Json::Null);
    }
    within(task, "CSIPluginConfig", |plugin| {
        for (key, default) in
            [("MountDir", json!("/csi")), ("StagePublishBaseDir", json!("/local/csi")), ("HealthTimeout", json!(30 * SECOND))]
        {
            if plugin.get(key).is_none_or(|given| *given == json!("") || *given == json!(0)) {
                plugin.insert(key.to_string(), default);
            }
        }
    });
    inherit(task, "RestartPolicy", policy);
    let service_name = format!("{job}-{group}-{}", text(task, "Name"));
    each(task, "Services", |service| self::service(service, &service_name));
}

fn resources(resources: &mut Object) {
    let has_cores = resources.get("Cores").is_some_and(|cores| !cores.is_null());
    fill(
        resources,
        &[
            ("Cores", json!(0)),
            // A task that requests cores gets no default CPU share.
            ("CPU", json!(if has_cores { 0 } else { 100 })),
            ("MemoryMB", json!(300)),
        ],
    );
    for absent in ["Devices", "DiskMB", "IOPS", "MemoryMaxMB", "Networks"] {
        resources.entry(absent).or_insert(Json::Null);
    }
    each(resources, "Devices", |device| {
        fill(device, &[("Count", json!(1))]);
        each(device, "Affinities", affinity);
    });
}

fn artifact(artifact: &mut Object) {
    fill(artifact, &[("GetterMode", json!("any")), ("GetterSource", json!(""))]);
    null_if_empty(artifact, &["GetterOptions", "GetterHeaders"]);
    let destination = match text(artifact, "GetterMode").as_str() {
        "file" => format!("local/{}", base(&text(artifact, "GetterSource"))),
        _ => "local/".to_string(),
    };
    fill(artifact, &[("RelativeDest", json!(destination))]);
}

/// The last part of a path.
fn base(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    trimmed.rsplit('/').next().filter(|last| !last.is_empty()).unwrap_or(".")
}

fn template(template: &mut Object) {
    fill(template, &[("ChangeMode", json!("restart"))]);
    let signal = match (template.get("ChangeSignal").and_then(Json::as_str), text(template, "ChangeMode").as_str()) {
        (Some(given), _) => given.to_uppercase(),
        (None, "signal") => "SIGHUP".to_string(),
        (None, _) => String::new(),
    };
    template.insert("ChangeSignal".to_string(), json!(signal));
    fill(
        template,
        &[
            ("SourcePath", json!("")),
            ("DestPath", json!("")),
            ("EmbeddedTmpl", json!("")),
            ("Splay", json!(5 * SECOND)),
            ("Perms", json!("0644")),
            ("LeftDelim", json!("{{")),
            ("RightDelim", json!("}}")),
            ("Envvars", json!(false)),
            ("ErrMissingKey", json!(false)),
            ("VaultGrace", json!(0)),
        ],
    );
    within(template, "ChangeScript", |script| {
        fill(script, &[("Command", json!("")), ("Args", json!([])), ("Timeout", json!(5 * SECOND)), ("FailOnError", json!(false))]);
    });
}

// ---- services

fn service(service: &mut Object, name: &str) {
    for (key, default) in [("Name", name), ("AddressMode", "auto"), ("OnUpdate", "require_healthy"), ("Provider", "consul")] {
        if text(service, key).is_empty() {
            service.insert(key.to_string(), json!(default));
        }
    }
    null_if_empty(service, &["Meta", "CanaryMeta", "TaggedAddresses"]);
    let of_service = service.get("CheckRestart").filter(|given| !given.is_null()).cloned();
    let on_update = text(service, "OnUpdate");
    each(service, "Checks", |check| {
        let merged = merged_restart(of_service.as_ref(), check.get("CheckRestart"));
        check.insert("CheckRestart".to_string(), merged);
        within(check, "CheckRestart", |restart| fill(restart, &[("Grace", json!(SECOND))]));
        for threshold in ["SuccessBeforePassing", "FailuresBeforeCritical"] {
            if check.get(threshold).and_then(Json::as_i64).is_some_and(|given| given < 0) {
                check.insert(threshold.to_string(), json!(0));
            }
        }
        if text(check, "OnUpdate").is_empty() {
            check.insert("OnUpdate".to_string(), json!(on_update));
        }
    });
}

/// The restart settings of a check, merged over those of its service.
fn merged_restart(service: Option<&Json>, check: Option<&Json>) -> Json {
    let check = check.filter(|given| !given.is_null());
    let (Some(Json::Object(service)), Some(Json::Object(check))) = (service, check) else {
        return service.or(check).cloned().unwrap_or_default();
    };
    let mut merged = service.clone();
    for (key, given) in check {
        let says_nothing = given.is_null() || *given == json!(0) || *given == json!(false);
        if !says_nothing {
            merged.insert(key.clone(), given.clone());
        }
    }
    Json::Object(merged)
}

// ---- objects

/// Sets members that are absent or null.
fn fill(object: &mut Object, defaults: &[(&str, Json)]) {
    for (key, default) in defaults {
        if object.get(*key).is_none_or(Json::is_null) {
            object.insert((*key).to_string(), default.clone());
        }
    }
}

/// Takes members that are absent or null from the enclosing object.
fn inherit(object: &mut Object, key: &str, above: Option<&Json>) {
    let Some(Json::Object(above)) = above else { return };
    fill(object, &[(key, json!({}))]);
    within(object, key, |own| {
        for (member, value) in above {
            fill(own, &[(member.as_str(), value.clone())]);
        }
    });
}

fn within(object: &mut Object, key: &str, change: impl FnOnce(&mut Object)) {
    if let Some(Json::Object(inner)) = object.get_mut(key) {
        change(inner);
    }
}

fn each(object: &mut Object, key: &str, mut change: impl FnMut(&mut Object)) {
    if let Some(Json::Array(items)) = object.get_mut(key) {
        for item in items {
            if let Json::Object(inner) = item {
                change(inner);
            }
        }
    }
}

fn text(object: &Object, key: &str) -> String {
    object.get(key).and_then(Json::as_str).unwrap_or_default().to_string()
}

fn null_if_empty(object: &mut Object, keys: &[&str]) {
    for key in keys {
        if object.get(*key).and_then(Json::as_object).is_some_and(Object::is_empty) {
            object.insert((*key).to_string(), Json::Null);
        }
    }
}
