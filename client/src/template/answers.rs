//! Questions of templates. Those to the servers: blocking queries with the task's token, repeated for as long as the task
//! lives.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use songline_lang::template::Value;
use songline_lang::template::consul::nomad::{self, Variable};
use songline_lang::template::consul::{Question, VariableName};
use songline_model::{Dur, Secret, ServiceRegistration};
use tokio::sync::mpsc;

use super::consul;
use super::reads::{ReadAnswer, ServerReads};
use super::settings::{Retry, TemplateSettings};
use crate::consul::Agent;
use crate::escape;

/// Delay after an answer that came without a change: a server that does not block must not be asked in a tight loop.
pub(super) const EARLY_WAIT: Duration = Duration::from_secs(1);

/// Result of a question.
#[derive(Debug)]
pub(super) enum Heard {
    /// An answer, with the texts that errors must not show. Without a value there is none yet.
    Answer { question: Question, value: Option<Value>, secrets: Vec<String> },
    /// The task's token of Vault has changed, and is in its environment.
    Token(Secret),
    /// The servers, or Vault, could not be asked, too often.
    Failed(String),
}

/// Asks in the name of one task.
#[derive(Clone)]
pub(super) struct Asker {
    pub reads: Option<Arc<dyn ServerReads>>,
    /// The node's Consul agent, if it has one.
    pub consul: Option<Agent>,
    pub token: Secret,
    pub settings: TemplateSettings,
    /// Namespace of the job.
    pub namespace: String,
    /// Region of the node.
    pub region: String,
    pub heard: mpsc::UnboundedSender<Heard>,
}

impl Asker {
    /// Follows the answer to a question, for ever or until it failed too often.
    pub async fn follow(self, question: Question) {
        if let (Question::Consul(question), Some(agent)) = (&question, self.consul.clone()) {
            let question = question.clone();
            return consul::follow(self, agent, question).await;
        }
        let (mut index, mut failures) = (0, 0);
        let (Some(path), Some(reads)) = (self.path(&question), self.reads.clone()) else { return };
        loop {
            let wait = self.settings.block_query_wait;
            let path = if index == 0 { path.clone() } else { format!("{path}&index={index}&wait={wait}") };
            match reads.get(path, self.token.clone()).await.and_then(|answer| read(&question, answer)) {
                Ok(Read { index: found, .. }) if index != 0 && found == index => tokio::time::sleep(EARLY_WAIT).await,
                Ok(Read { index: found, value, secrets }) => {
                    failures = 0;
                    index = if found < index { 0 } else { found };
                    if self.heard.send(Heard::Answer { question: question.clone(), value, secrets }).is_err() {
                        return;
                    }
                    if index == 0 {
                        tokio::time::sleep(EARLY_WAIT).await;
                    }
                }
                Err(error) => {
                    if !again(&self.heard, &question, &error, self.settings.nomad_retry, &mut failures).await {
                        return;
                    }
                }
            }
        }
    }

    /// Path and query of a question; `None` if it is not for the servers.
    fn path(&self, question: &Question) -> Option<String> {
        let place = |name: &VariableName| {
            let region = if name.region == self.region {
                String::new()
            } else {
                format!("&region={}", escape::path(&name.region))
            };
            format!("namespace={}{region}", escape::path(&name.namespace))
        };
        Some(match question {
            Question::Variable(name) | Question::VariableExists(name) => {
                format!("/v1/var/{}?{}", escape::path(&name.path), place(name))
            }
            Question::VariableList(name) => format!("/v1/vars?prefix={}&{}", escape::path(&name.path), place(name)),
            Question::Service { name, choose } => {
                let choose =
                    choose.as_ref().map(|choose| format!("&choose={}", escape::path(choose))).unwrap_or_default();
                format!("/v1/service/{}?namespace={}{choose}", escape::path(name), escape::path(&self.namespace))
            }
            Question::Services => format!("/v1/services?namespace={}", escape::path(&self.namespace)),
            Question::Consul(_) | Question::Vault(_) => return None,
        })
    }
}

/// Waits after a failed question. Returns whether it is asked again; otherwise the worker is told of the failure.
pub(super) async fn again(
    heard: &mpsc::UnboundedSender<Heard>,
    question: &Question,
    error: &str,
    retry: Retry,
    failures: &mut u32,
) -> bool {
    *failures += 1;
    if retry.attempts != 0 && *failures > retry.attempts {
        // The worker may be gone.
        let _ = heard.send(Heard::Failed(format!("{question}: {error}")));
        return false;
    }
    tracing::debug!(%question, error, "asking for a template");
    tokio::time::sleep(backoff(retry.backoff, retry.backoff_max, *failures)).await;
    true
}

/// Delay after this many failures.
pub(super) fn backoff(first: Dur, most: Dur, failures: u32) -> Duration {
    let factor = 1u32 << failures.saturating_sub(1).min(16);
    (first.to_std() * factor).min(most.to_std())
}

/// An answer as a value.
struct Read {
    index: u64,
    value: Option<Value>,
    secrets: Vec<String>,
}

/// A variable on the wire.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct WireVariable {
    namespace: String,
    path: String,
    create_index: u64,
    modify_index: u64,
    create_time: i64,
    modify_time: i64,
    items: Option<std::collections::BTreeMap<String, String>>,
}

impl From<WireVariable> for Variable {
    fn from(wire: WireVariable) -> Self {
        Self {
            path: wire.path,
            namespace: wire.namespace,
            create_index: wire.create_index,
            modify_index: wire.modify_index,
            create_time: wire.create_time,
            modify_time: wire.modify_time,
            items: wire.items.unwrap_or_default(),
        }
    }
}

/// Services of a namespace on the wire.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct WireServices {
    services: Option<Vec<WireService>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct WireService {
    service_name: String,
    tags: Option<Vec<String>>,
}

fn read(question: &Question, answer: ReadAnswer) -> Result<Read, String> {
    let (index, mut secrets) = (answer.index, Vec::new());
    let body = match answer.status {
        200 => Some(answer.body),
        404 => None,
        status => {
            let text = String::from_utf8_lossy(&answer.body);
            return Err(format!("Unexpected response code: {status} ({})", text.trim()));
        }
    };
    let value = match (question, body) {
        (Question::Variable(_), None) => None,
        (Question::Variable(_), Some(body)) => {
            let variable = Variable::from(parsed::<WireVariable>(&body)?);
            secrets = variable.items.values().cloned().collect();
            Some(variable.value())
        }
        (Question::VariableExists(_), body) => Some(Value::Bool(body.is_some())),
        (Question::VariableList(_), body) => {
            let all = body.map(|body| parsed::<Vec<WireVariable>>(&body)).transpose()?.unwrap_or_default();
            Some(Value::list(all.into_iter().map(|wire| Variable::from(wire).listed()).collect()))
        }
        (Question::Service { .. }, body) => {
            let rows = body.map(|body| parsed::<Vec<ServiceRegistration>>(&body)).transpose()?.unwrap_or_default();
            Some(Value::list(rows.iter().map(nomad::service).collect()))
        }
        (Question::Services, body) => {
            let all = body.map(|body| parsed::<Vec<WireServices>>(&body)).transpose()?.unwrap_or_default();
            let all = all.into_iter().flat_map(|of| of.services.unwrap_or_default());
            let value = |service: WireService| {
                let tags = service.tags.unwrap_or_default();
                nomad::service_name(&service.service_name, tags.iter().map(String::as_str))
            };
            Some(Value::list(all.map(value).collect()))
        }
        (Question::Consul(_) | Question::Vault(_), _) => None,
    };
    Ok(Read { index, value, secrets })
}

pub(super) fn parsed<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}
