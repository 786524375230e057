//! Templates with keys, services and nodes of the Consul agent in this process: what they show, how they follow it, and
//! what they say while there is no answer.

use std::sync::Arc;

use serde_json::json;
use songline_client::{ClientConfig, ConsulSettings, Retry};
use songline_model::{AllocClientStatus, Dur, Secret, Task, Template, WaitConfig};

use crate::consul_api::{ConsulApi, TOKEN};
use crate::fake::{Stage, is_running, messages, task, until};

fn at(consul: &ConsulApi) -> impl Fn(&mut ClientConfig) + Send + Sync + 'static {
    let address = consul.address();
    move |config| {
        config.consul = Some(ConsulSettings {
            address: address.as_str().into(),
            token: Secret::new(TOKEN),
            ..ConsulSettings::default()
        });
        config.template.consul_retry = Retry { attempts: 2, backoff: Dur::from_millis(10), ..Retry::default() };
    }
}

/// A task that runs for long, with one template whose changes it does not notice.
fn templated(text: &str) -> Task {
    let template = Template {
        embedded_tmpl: text.into(),
        dest_path: "local/out".into(),
        change_mode: "noop".into(),
        wait: Some(WaitConfig { min: Some(Dur::ZERO), max: Some(Dur::ZERO) }),
        ..Template::default()
    };
    Task { templates: Some(vec![template]), ..task("mock_driver", json!({ "run_for": "1h" })) }
}

/// Runs a task with this template until its file has the text.
async fn shows(stage: &Stage, text: &str, expected: &str) -> songline_model::AllocId {
    let id = stage.run(templated(text));
    stage.until("running", id, is_running).await;
    has(stage, id, expected).await;
    id
}

async fn has(stage: &Stage, id: songline_model::AllocId, expected: &str) {
    let path = stage.alloc_dir(id).join("web/local/out");
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    let same = || (read() == expected).then_some(());
    let waited = tokio::time::timeout(crate::fake::TIMEOUT, until("the file", same)).await;
    assert!(waited.is_ok(), "the file is {:?}", read());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_consul_are_rendered_and_followed() {
    let consul = ConsulApi::start().await;
    consul.store(|store| {
        for (key, text) in [("app/a", "1"), ("app/b", "two"), ("app/deep/c", "3"), ("app/folder/", ""), ("empty", "")] {
            store.put(key, text);
        }
    });
    let stage = Stage::with(at(&consul)).await;
    let text = "{{ key \"app/a\" }} {{ key \"/app/b@east\" }} {{ keyExists \"app/a\" }} {{ keyExists \"none\" }} \
                {{ keyOrDefault \"none\" \"d\" }} {{ keyOrDefault \"empty\" \"e\" }}\
                {{ range ls \"app\" }} {{ .Key }}={{ .Value }}{{ end }}{{ range tree \"app\" }} {{ .Path }}:{{ .Flags }}{{ end }}";
    let id = shows(&stage, text, "1 two true false d e a=1 b=two app/a:7 app/b:7 app/deep/c:7").await;
    let asked = consul.asked();
    assert!(asked.iter().any(|asked| asked.starts_with("/v1/kv/app/b?stale=&dc=east")), "{asked:?}");

    consul.store(|store| store.put("none", "now"));
    has(&stage, id, "1 two true true now e a=1 b=two app/a:7 app/b:7 app/deep/c:7").await;
    // A key that is deleted keeps its last value; its absence is seen.
    consul.store(|store| drop(store.keys.remove("app/a")));
    has(&stage, id, "1 two false true now e b=two app/b:7 app/deep/c:7").await;
    let asked = consul.asked();
    assert!(asked.iter().any(|asked| asked.contains("&index=2&wait=300s")), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn services_and_nodes_of_consul_are_rendered_and_followed() {
    let consul = ConsulApi::start().await;
    consul.store(|store| {
        store.add("db", "db-2", "c2", "passing");
        store.add("db", "db-1", "c1", "passing");
        store.add("db", "db-3", "c1", "critical");
    });
    let stage = Stage::with(at(&consul)).await;
    let text = "{{ range service \"db\" }}{{ .ID }}@{{ .Address }}:{{ .Port }} {{ end }}\
                {{ range service \"main.db|any\" }}{{ .ID }}={{ .Status }} {{ end }}\
                {{ range service \"db\" \"critical,warning\" }}{{ .Node }}{{ .Tags }} {{ end }}\
                {{ range services }}{{ .Name }}{{ .Tags | join \",\" }} {{ end }}\
                {{ with node }}{{ .Node.Node }} {{ range .Services }}{{ .ID }} {{ end }}{{ end }}\
                {{ with node \"c2\" }}{{ .Node.Address }} {{ .Node.Meta.os }} {{ end }}\
                {{ with node \"c9\" }}{{ if .Node }}there{{ else }}nobody{{ end }} {{ end }}\
                {{ range nodes }}{{ .Node }} {{ end }}{{ datacenters }}{{ datacenters true | len }}";
    let rest = "main,v2 c1 db-1 db-3 10.0.0.2 linux nobody c1 c2 [east west]2";
    let first = "db-1@10.0.0.1:5432 db-2@10.0.0.2:5432 db-1=passing db-3=critical db-2=passing c1[main v2] db";
    let id = shows(&stage, text, &format!("{first}{rest}")).await;

    consul.store(|store| store.instances.get_mut("db").expect("was added").retain(|i| i["Service"]["ID"] != "db-2"));
    let then = "db-1@10.0.0.1:5432 db-1=passing db-3=critical c1[main v2] db";
    has(&stage, id, &format!("{then}{rest}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_waits_for_a_key_and_says_which() {
    let consul = ConsulApi::start().await;
    let stage = Stage::with(at(&consul)).await;
    let id = stage.run(templated("{{ key \"late\" }} {{ range safeLs \"folder\" }}{{ .Key }}{{ end }}"));
    let missing = "Missing: kv.block(late), kv.list(folder)";
    stage.until("it says what is missing", id, |update| messages(update).iter().any(|text| text == missing)).await;
    consul.store(|store| store.put("late", "here"));
    consul.store(|store| store.put("folder/x", "1"));
    stage.until("running", id, is_running).await;
    has(&stage, id, "here x").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_question_fails_the_task_after_the_retries() {
    let consul = ConsulApi::start().await;
    let stage = Stage::with(at(&consul)).await;
    let id = stage.run(templated("{{ key \"denied\" }}"));
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    let said = messages(&update);
    let expected = "Template failed: kv.block(denied): Unexpected response code: 403 (Permission denied)";
    assert!(said.iter().any(|text| text == expected), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_outlast_a_consul_that_is_away_for_less_than_the_retries() {
    let consul = ConsulApi::start().await;
    consul.store(|store| store.put("a", "1"));
    consul.set_away(true);
    let address = Arc::new(at(&consul));
    let stage = Stage::with(move |config| {
        address(config);
        config.template.consul_retry.attempts = 0;
    })
    .await;
    let id = stage.run(templated("{{ key \"a\" }}"));
    let missing = "Missing: kv.block(a)";
    stage.until("it says what is missing", id, |update| messages(update).iter().any(|text| text == missing)).await;
    consul.set_away(false);
    stage.until("running", id, is_running).await;
    has(&stage, id, "1").await;
}
