//! Story words for services and scaling.

use super::*;

pub(super) fn show(state: &State, noun: &str, what: &str) -> String {
    let gone = || format!("{noun} {what}: none");
    match noun {
        "policies" => {
            let rows = state
                .scaling_policies()
                .map(|row| format!("{}({}..{})@{}-{}", row.id, row.min, row.max, row.create_index, row.modify_index));
            format!("policies: {}", rows.collect::<Vec<_>>().join(" "))
        }
        "scalings" => {
            let key = job_key(what);
            state.scaling_events(&key.namespace, &key.id).map_or_else(gone, |row| {
                let of_group = row.scaling_events.iter().map(|(group, events)| {
                    let events: Vec<String> =
                        events.iter().map(|event| format!("{}@{}", event.message, event.create_index)).collect();
                    format!(" {group}({})", events.join(" "))
                });
                format!("scalings {what}: modify={}{}", row.modify_index, of_group.collect::<String>())
            })
        }
        _ => {
            let rows = state.service_registrations().map(|row| {
                format!(
                    " {}/{}:{}[{}]@{}-{}",
                    row.namespace,
                    row.id,
                    row.port,
                    row.tags.join(","),
                    row.create_index,
                    row.modify_index
                )
            });
            format!(
                "services:{} of n1={} of a1={} of db={} of web={}",
                rows.collect::<String>(),
                state.service_registrations_of_node(NodeId::from_bytes(id("n1"))).count(),
                state.service_registrations_of_alloc(AllocId::from_bytes(id("a1"))).count(),
                state.registrations_of_service(DEFAULT_NAMESPACE, "db").count(),
                state.service_registrations_of_job(DEFAULT_NAMESPACE, "web").count()
            )
        }
    }
}

/// `service upsert s1 s2 name=db node=n1 alloc=a1 tags=x,y port=1`, `service delete s1`, `service delete-node n1`.
pub(super) fn command(words: &Words<'_>, verb: &str, what: &str) -> Command {
    let row = |name_of: &str| {
        let (namespace, name_of) = name_of.split_once('/').unwrap_or((DEFAULT_NAMESPACE, name_of));
        ServiceRegistration {
            id: name_of.into(),
            namespace: namespace.into(),
            service_name: words.get("name").unwrap_or("db").into(),
            node_id: NodeId::from_bytes(id(words.get("node").unwrap_or("n1"))),
            alloc_id: AllocId::from_bytes(id(words.get("alloc").unwrap_or("a1"))),
            job_id: words.get("job").unwrap_or("web").into(),
            tags: words.list("tags").map(Str::new).collect(),
            port: words.number("port").unwrap_or(80).cast_signed(),
            ..ServiceRegistration::default()
        }
    };
    match verb {
        "upsert" => {
            UpsertServiceRegistrations { services: words.plain[2..].iter().map(|name_of| row(name_of)).collect() }
                .into()
        }
        "delete" => DeleteServiceRegistration { namespace: row(what).namespace, id: row(what).id }.into(),
        "delete-node" => DeleteServiceRegistrationsOfNode { node_id: NodeId::from_bytes(id(what)) }.into(),
        other => panic!("no command service {other}"),
    }
}
