//! Questions of templates to the node's Consul agent: blocking queries with the agent's own token, repeated for as long
//! as the task lives.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use songline_lang::template::Value;
use songline_lang::template::consul::catalog::{self, Instance, Node, NodeServices, Pair};
use songline_lang::template::consul::{ConsulQuestion, Place, Question};
use songline_model::Dur;

use super::answers::{Asker, EARLY_WAIT, Heard, again, parsed};
use crate::consul::{Agent, Found};
use crate::escape;

/// Interval at which datacenters are asked for, which Consul has no blocking query for.
const DATACENTERS_EVERY: Duration = Duration::from_secs(15);
/// Text of Consul's refusal of questions about a datacenter that it cannot reach.
const NO_PATH: &str = "No path to datacenter";

/// An answer as a value. Without one there is none yet.
struct Read {
    index: u64,
    value: Option<Value>,
    secrets: Vec<String>,
}

/// Follows the answer to a question, for ever or until it failed too often.
pub(super) async fn follow(asker: Asker, agent: Agent, question: ConsulQuestion) {
    let (mut index, mut failures) = (0, 0);
    let name = Question::Consul(question.clone());
    loop {
        match read(&agent, &question, index, asker.settings.block_query_wait).await {
            Ok(Read { index: found, .. }) if index != 0 && found == index => tokio::time::sleep(EARLY_WAIT).await,
            Ok(Read { index: found, value, secrets }) => {
                failures = 0;
                index = if found < index { 0 } else { found };
                if asker.heard.send(Heard::Answer { question: name.clone(), value, secrets }).is_err() {
                    return;
                }
                let pause = match question {
                    ConsulQuestion::Datacenters { .. } => DATACENTERS_EVERY,
                    _ if index == 0 => EARLY_WAIT,
                    _ => Duration::ZERO,
                };
                tokio::time::sleep(pause).await;
            }
            Err(error) => {
                if !again(&asker.heard, &name, &error, asker.settings.consul_retry, &mut failures).await {
                    return;
                }
            }
        }
    }
}

async fn read(agent: &Agent, question: &ConsulQuestion, index: u64, wait: Dur) -> Result<Read, String> {
    let get = async |path: &str, place: &Place, more: &str| {
        let path = format!("{path}?{}", query(place, more, index, wait));
        agent.get(&path, wait).await.map_err(|error| error.to_string())
    };
    let (found, value, secrets) = match question {
        ConsulQuestion::Key { key, place, must_exist } => {
            let found = get(&format!("/v1/kv/{}", escape::path(key)), place, "").await?;
            let text = body::<Vec<Pair>>(&found)?.unwrap_or_default().first().map(Pair::text).transpose()?;
            let absent = (!must_exist).then_some(Value::Nil);
            (found, text.as_ref().map(Value::text).or(absent), text.into_iter().collect())
        }
        ConsulQuestion::KeyExists { key, place } => {
            let found = get(&format!("/v1/kv/{}", escape::path(key)), place, "").await?;
            let exists = Value::Bool(body::<Vec<Pair>>(&found)?.is_some());
            (found, Some(exists), Vec::new())
        }
        ConsulQuestion::Keys { prefix, place } => {
            let found = get(&format!("/v1/kv/{}", escape::path(prefix)), place, "recurse=true").await?;
            let pairs = body::<Vec<Pair>>(&found)?.unwrap_or_default();
            let values = pairs.iter().map(|pair| pair.value(prefix)).collect::<Result<_, _>>()?;
            let secrets = pairs.iter().map(Pair::text).collect::<Result<_, _>>()?;
            (found, Some(Value::list(values)), secrets)
        }
        ConsulQuestion::Health { name, tag, place, filters, connect } => {
            let of = if *connect { "connect" } else { "service" };
            let mut more = if tag.is_empty() { String::new() } else { format!("tag={}", escape::path(tag)) };
            if filters.as_slice() == ["passing"] {
                more.push_str("&passing=1");
            }
            let found = get(&format!("/v1/health/{of}/{}", escape::path(name)), place, &more).await?;
            let instances = body::<Vec<Instance>>(&found)?.unwrap_or_default();
            let value = catalog::instances(instances, filters, !place.near.is_empty());
            (found, Some(value), Vec::new())
        }
        ConsulQuestion::Services { place } => {
            let found = get("/v1/catalog/services", place, "").await?;
            let value = catalog::services(&body::<BTreeMap<_, _>>(&found)?.unwrap_or_default());
            (found, Some(value), Vec::new())
        }
        ConsulQuestion::Node { name, place } => {
            let own;
            let name = match name.as_str() {
                "" => {
                    own = own_name(agent).await?;
                    &own
                }
                name => name,
            };
            let found = get(&format!("/v1/catalog/node/{}", escape::path(name)), place, "").await?;
            let node = body::<Option<NodeServices>>(&found)?.flatten();
            let value = node.map_or_else(NodeServices::none, |node| node.value());
            (found, Some(value), Vec::new())
        }
        ConsulQuestion::Nodes { place } => {
            let found = get("/v1/catalog/nodes", place, "").await?;
            let mut nodes = body::<Vec<Node>>(&found)?.unwrap_or_default();
            nodes.sort();
            let value = Value::list(nodes.iter().map(Node::value).collect());
            (found, Some(value), Vec::new())
        }
        ConsulQuestion::Datacenters { reachable } => {
            let found = get("/v1/catalog/datacenters", &Place::default(), "").await?;
            let mut names = body::<Vec<String>>(&found)?.unwrap_or_default();
            if *reachable {
                names = reachable_of(agent, names).await?;
            }
            (found, Some(Value::texts(names)), Vec::new())
        }
        // The service mesh is not supported.
        ConsulQuestion::Mesh(_) => std::future::pending().await,
    };
    Ok(Read { index: found.index, value, secrets })
}

/// The query of a question. Any server of Consul may answer, as the reference lets it.
fn query(place: &Place, more: &str, index: u64, wait: Dur) -> String {
    let named = |name: &str, value: &str| {
        if value.is_empty() { String::new() } else { format!("{name}={}", escape::path(value)) }
    };
    let blocking = if index == 0 { String::new() } else { format!("index={index}&wait={}s", wait.to_std().as_secs()) };
    let parts = [
        "stale=".to_owned(),
        more.trim_start_matches('&').to_owned(),
        // Names and values alone: the form of the argument admits nothing else.
        place.params.clone(),
        named("dc", &place.datacenter),
        named("near", &place.near),
        blocking,
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&")
}

/// An answer's content; `None` of what Consul does not know.
fn body<T: DeserializeOwned>(found: &Found) -> Result<Option<T>, String> {
    match found.status {
        200 => parsed(&found.body).map(Some),
        404 => Ok(None),
        status => {
            let text = String::from_utf8_lossy(&found.body);
            Err(format!("Unexpected response code: {status} ({})", text.trim()))
        }
    }
}

/// Name of the agent's node.
async fn own_name(agent: &Agent) -> Result<String, String> {
    let about = agent.about_itself().await.map_err(|error| error.to_string())?;
    let name = about["Config"]["NodeName"].as_str();
    name.map(str::to_owned).ok_or_else(|| "the Consul agent does not tell its name".to_owned())
}

/// The datacenters that the agent can ask.
async fn reachable_of(agent: &Agent, names: Vec<String>) -> Result<Vec<String>, String> {
    let mut reachable = Vec::new();
    for name in names {
        let path = format!("/v1/catalog/nodes?stale=&dc={}", escape::path(&name));
        let found = agent.get(&path, Dur::ZERO).await.map_err(|error| error.to_string())?;
        if !String::from_utf8_lossy(&found.body).contains(NO_PATH) || found.status == 200 {
            reachable.push(name);
        }
    }
    Ok(reachable)
}
