//! Jobs of stories, from the words of a line.

use super::*;

/// A job of one group `web` with one task `t`, with the properties that the words give.
pub(crate) fn job(id: &str, words: &BTreeMap<&str, &str>) -> Job {
    let number = |key: &str, default: i64| words.get(key).map_or(default, |text| text.parse().unwrap());
    let constraint = |text: &str| {
        let mut parts = text.split(',').map(str::to_owned);
        let mut next = || Str::from(parts.next().unwrap_or_default());
        Constraint { l_target: next(), operand: next(), r_target: next() }
    };
    let constraints = |key: &str| words.get(key).map(|text| vec![constraint(text)]);
    let affinities = |key: &str| words.get(key).map(|texts| texts.split(';').map(asks::affinity).collect());
    let spreads = |key: &str| words.get(key).map(|texts| texts.split(';').map(asks::spread).collect());
    let port = |label: &str, value| Port { label: label.into(), value, ..Port::default() };
    let networks = (words.contains_key("port") || words.contains_key("dynamic")).then(|| {
        vec![NetworkResource {
            reserved_ports: words.get("port").map(|text| vec![port("http", text.parse().unwrap())]),
            dynamic_ports: words.contains_key("dynamic").then(|| vec![port("rpc", 0)]),
            hostname: words.get("hostname").copied().unwrap_or_default().into(),
            ..NetworkResource::default()
        }]
    });
    let task = Task {
        name: "t".into(),
        driver: words.get("driver").copied().unwrap_or("mock_driver").into(),
        env: words.get("env").map(|value| [("E".into(), (*value).into())].into()),
        templates: words.contains_key("template").then(|| vec![Template::default()]),
        vault: words.contains_key("vault").then(Vault::default),
        resources: Some(Resources {
            cpu: if words.contains_key("cores") { 0 } else { number("cpu", 500) },
            memory_mb: number("mem", 256),
            memory_max_mb: number("memmax", 0),
            cores: number("cores", 0),
            devices: words.get("device").map(|text| vec![asks::requested_device(text)]),
            networks: words.get("task_port").map(|text| {
                vec![NetworkResource {
                    reserved_ports: Some(vec![port("http", text.parse().unwrap())]),
                    dynamic_ports: Some(vec![port("rpc", 0)]),
                    ..NetworkResource::default()
                }]
            }),
            ..Resources::default()
        }),
        kill_timeout: Dur(number("kill", 5) * SECOND),
        ..Task::default()
    };
    let kind = [JobType::System, JobType::SysBatch, JobType::Batch]
        .into_iter()
        .find(|kind| words.contains_key(kind.as_str()))
        .unwrap_or_default();
    let per_node = kind.is_per_node();
    let update = words.get("parallel").map(|text| UpdateStrategy {
        max_parallel: text.parse().unwrap(),
        stagger: Dur(number("stagger", 0) * SECOND),
        canary: number("canary", 0),
        progress_deadline: Dur(number("progress", 0) * SECOND),
        auto_promote: words.contains_key("auto_promote"),
        auto_revert: words.contains_key("auto_revert"),
        ..UpdateStrategy::default()
    });
    let group = |name: &str, group_constraints| TaskGroup {
        name: name.into(),
        count: number("count", 1),
        constraints: group_constraints,
        affinities: affinities("affinity"),
        spreads: spreads("spread"),
        tasks: Some(vec![task.clone()]),
        networks: networks.clone(),
        update: update.clone().filter(|_| !per_node),
        migrate: words
            .get("max_migrate")
            .map(|text| MigrateStrategy { max_parallel: text.parse().unwrap(), ..MigrateStrategy::default() }),
        ephemeral_disk: Some(EphemeralDisk {
            size_mb: 300,
            sticky: words.contains_key("sticky"),
            migrate: words.contains_key("migrate"),
        }),
        reschedule_policy: (!per_node).then(|| ReschedulePolicy {
            attempts: number("attempts", 3),
            interval: Dur(3600 * SECOND),
            delay: Dur(number("delay", 0) * SECOND),
            delay_function: "constant".into(),
            ..ReschedulePolicy::default()
        }),
        max_client_disconnect: words.get("disconnect").map(|secs| Dur(secs.parse::<i64>().unwrap() * SECOND)),
        ..TaskGroup::default()
    };
    let mut groups = vec![group("web", constraints("group_constraint"))];
    if words.contains_key("second_constraint") {
        groups.push(group("second", constraints("second_constraint")));
    }
    Job {
        id: id.into(),
        namespace: "default".into(),
        name: id.into(),
        kind,
        priority: number("priority", 50),
        update: update.clone().filter(|_| per_node).unwrap_or_default(),
        datacenters: Some(words.get("dcs").copied().unwrap_or("*").split(',').map(Str::from).collect()),
        node_pool: words.get("pool").copied().unwrap_or("default").into(),
        constraints: constraints("constraint"),
        affinities: affinities("job_affinity"),
        spreads: spreads("job_spread"),
        task_groups: Some(groups),
        ..Job::default()
    }
}
