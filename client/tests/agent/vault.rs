//! Tasks with a `vault` block, with Vault in this process.

use std::os::unix::fs::MetadataExt;

use serde_json::json;
use songline_client::{ClientConfig, Retry, VaultSettings};
use songline_model::{AllocClientStatus, AllocId, Dur, JobType, Task, Template, Vault, WaitConfig};

use crate::fake::{Stage, alloc, is_running, kinds, messages, shell, until, web};
use crate::vault_api::VaultApi;

fn at(vault: &VaultApi) -> impl Fn(&mut ClientConfig) + Send + Sync + 'static {
    let address = vault.address();
    move |config| {
        config.vault = Some(VaultSettings { address: address.as_str().into(), ..VaultSettings::default() });
        config.plugins.insert("raw_exec".into(), [("enabled".to_owned(), json!(true))].into_iter().collect());
    }
}

fn block(change_mode: &str) -> Vault {
    Vault {
        policies: Some(vec!["db".into()]),
        env: true,
        change_mode: change_mode.into(),
        change_signal: "SIGUSR1".into(),
        ..Vault::default()
    }
}

/// A task that writes its token, and what it has of Vault otherwise, at each of its starts.
fn task(block: Vault, template: &str) -> Task {
    let script = "echo \"$VAULT_TOKEN ns=$VAULT_NAMESPACE addr=$VAULT_ADDR $(cat secrets/vault_token)\" >> local/starts; \
                  trap 'cat secrets/vault_token >> local/signals' USR1; while :; do sleep 0.05; done";
    let template = Template {
        embedded_tmpl: template.into(),
        dest_path: "local/db.txt".into(),
        change_mode: "noop".into(),
        left_delim: "{{".into(),
        right_delim: "}}".into(),
        ..Template::default()
    };
    Task { vault: Some(block), templates: Some(vec![template]), ..shell(script) }
}

const READ: &str = "{{ with secret \"secret/app/db\" }}{{ .Data.data.user }}:{{ .Data.data.password }}{{ end }}";

async fn begin(vault: &VaultApi) -> Stage {
    vault.put("app/db", json!({ "user": "app", "password": "hidden" }));
    let stage = Stage::with(at(vault)).await;
    stage.servers.use_vault(vault);
    stage
}

/// Lines of a file of the task once there are so many of them.
async fn lines(stage: &Stage, id: AllocId, file: &str, count: usize) -> Vec<String> {
    let path = stage.alloc_dir(id).join("web").join(file);
    until(file, || {
        let lines: Vec<String> = std::fs::read_to_string(&path).ok()?.lines().map(str::to_owned).collect();
        (lines.len() >= count).then_some(lines)
    })
    .await
}

async fn token_is(stage: &Stage, id: AllocId, token: &str) {
    let path = stage.alloc_dir(id).join("web/private/vault_token");
    until(token, || (std::fs::read_to_string(&path).ok()? == token).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_tells_of_vault_and_no_longer_when_it_is_away() {
    let vault = VaultApi::start().await;
    let stage = begin(&vault).await;
    let node = stage.client.node();
    let told = |key: &str| node.attribute(key).map(|value| value.to_string()).unwrap_or_default();
    let names =
        ["vault.accessible", "vault.version", "vault.cluster_id", "vault.cluster_name", "songline.ability.vault"];
    assert_eq!(names.map(told), ["true", "1.14.8", "c-1", "vault-east", "true"]);
    vault.set_away(true);
    let stage = stage.restart().await;
    let node = stage.client.node();
    assert!(names[..4].iter().all(|name| node.attribute(name).is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn task_has_its_token_in_file_and_environment_and_templates_read_with_it() {
    let vault = VaultApi::start().await;
    let stage = begin(&vault).await;
    let all = format!(
        "{READ} {{{{ range secrets \"secret/app\" }}}}[{{{{ . }}}}]{{{{ end }}}} \
         {{{{ with secret \"pki/issue/web\" \"common_name=a.b\" }}}}{{{{ .Data.certificate }}}} {{{{ .Data.serial_number }}}}{{{{ end }}}}"
    );
    let id = stage.run(task(Vault { namespace: "team".into(), ..block("restart") }, &all));
    assert_eq!(lines(&stage, id, "local/starts", 1).await, ["token-1 ns=team addr= token-1"]);
    assert_eq!(lines(&stage, id, "local/db.txt", 1).await, ["app:hidden [db] certificate of a.b 7"]);
    let file = |name: &str| std::fs::metadata(stage.alloc_dir(id).join("web").join(name)).expect("is there");
    assert_eq!(
        (file("secrets/vault_token").mode() & 0o777, file("private/vault_token").mode() & 0o777),
        (0o600, 0o600)
    );
    assert_eq!(vault.namespaces(), ["team"]);
    let running = stage.until("running", id, is_running).await;
    assert!(!format!("{running:?}").contains("token-1"), "the servers are not told");

    stage.servers.stop(id);
    stage.until_status(id, AllocClientStatus::Complete).await;
    until("the token's revocation", || (vault.revoked() == ["token-1"]).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_may_have_neither_variable_nor_file() {
    let vault = VaultApi::start().await;
    let stage = begin(&vault).await;
    let id = stage.run(task(Vault { env: false, disable_file: true, ..block("noop") }, READ));
    assert_eq!(lines(&stage, id, "local/starts", 1).await, [" ns= addr= "]);
    assert_eq!(lines(&stage, id, "local/db.txt", 1).await, ["app:hidden"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn token_outlives_the_agent_and_is_renewed_by_the_next_one() {
    let vault = VaultApi::start().await;
    let stage = begin(&vault).await;
    let id = stage.run(task(block("restart"), READ));
    stage.until("running", id, is_running).await;
    let renewals = vault.renewals();
    let stage = stage.crash().await;
    until("a renewal", || (vault.renewals() > renewals).then_some(())).await;
    token_is(&stage, id, "token-1").await;
    assert_eq!((vault.made(), lines(&stage, id, "local/starts", 1).await.len()), (1, 1));

    // Vault is away while the agent is: the task runs on, and its token is the same.
    vault.set_away(true);
    let stage = stage.crash().await;
    stage.client.node();
    vault.set_away(false);
    let renewals = vault.renewals();
    until("a renewal", || (vault.renewals() > renewals).then_some(())).await;
    assert_eq!((vault.made(), lines(&stage, id, "local/starts", 1).await.len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn token_is_renewed_at_half_of_its_time() {
    let vault = VaultApi::start().await;
    vault.set_ttl(2);
    let stage = begin(&vault).await;
    let id = stage.run(task(block("restart"), READ));
    until("renewals", || (vault.renewals() >= 2).then_some(())).await;
    token_is(&stage, id, "token-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_token_restarts_the_task_signals_it_or_only_replaces_the_file() {
    let vault = VaultApi::start().await;
    vault.set_ttl(2);
    let stage = begin(&vault).await;
    let restarted = stage.run(task(block("restart"), READ));
    lines(&stage, restarted, "local/starts", 1).await;
    vault.revoke("token-1");
    let starts = lines(&stage, restarted, "local/starts", 2).await;
    assert_eq!(starts[1], "token-2 ns= addr= token-2");
    let update =
        stage.until("running again", restarted, |update| is_running(update) && web(update).restarts == 1).await;
    assert!(messages(&update).contains(&"Vault: new Vault token acquired".to_owned()), "{:?}", messages(&update));
    stage.servers.stop(restarted);
    stage.until_status(restarted, AllocClientStatus::Complete).await;

    let signalled = stage.run(task(block("signal"), READ));
    lines(&stage, signalled, "local/starts", 1).await;
    stage.until("running", signalled, is_running).await;
    vault.revoke("token-3");
    assert_eq!(lines(&stage, signalled, "local/signals", 1).await, ["token-4"]);
    stage.servers.stop(signalled);

    let left = stage.run(task(block("noop"), READ));
    lines(&stage, left, "local/starts", 1).await;
    vault.revoke("token-5");
    token_is(&stage, left, "token-6").await;
    assert_eq!(lines(&stage, left, "local/starts", 1).await.len(), 1);
    let update = stage.until("running", left, is_running).await;
    assert!(!kinds(&update).contains(&"Restart Signaled".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_of_a_secret_is_renewed_and_the_secret_read_again_when_it_or_the_token_has_ended() {
    let vault = VaultApi::start().await;
    vault.set_ttl(2);
    let stage = begin(&vault).await;
    let read = "{{ with secret \"database/creds/app\" }}{{ .Data.password }} {{ .LeaseDuration }}{{ end }}";
    let mut wanted = task(block("noop"), read);
    let wait = WaitConfig { min: Some(Dur::ZERO), max: Some(Dur::ZERO) };
    wanted.templates.iter_mut().flatten().for_each(|template| template.wait = Some(wait.clone()));
    let id = stage.run(wanted);
    let shown = async |text: &str| {
        let path = stage.alloc_dir(id).join("web/local/db.txt");
        until(text, || (std::fs::read_to_string(&path).ok()? == text).then_some(())).await;
    };
    shown("password-1 2").await;
    until("renewals", || (vault.lease_renewals() >= 2).then_some(())).await;
    shown("password-1 2").await;
    vault.end_leases();
    shown("password-2 2").await;
    vault.revoke("token-1");
    until("another token", || (vault.made() == 2).then_some(())).await;
    until("another password", || {
        let text = std::fs::read_to_string(stage.alloc_dir(id).join("web/local/db.txt")).ok()?;
        let number: u32 = text.strip_prefix("password-")?.split(' ').next()?.parse().ok()?;
        (number > 2).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_that_is_not_there_fails_the_task_after_the_retries_without_showing_others() {
    let vault = VaultApi::start().await;
    vault.put("app/db", json!({ "user": "app", "password": "hidden" }));
    let configure = at(&vault);
    let stage = Stage::with(move |config| {
        configure(config);
        config.template.vault_retry = Retry { attempts: 2, ..config.template.vault_retry };
    })
    .await;
    stage.servers.use_vault(&vault);
    let id = stage.run(task(block("restart"), "{{ with secret \"secret/none\" }}{{ .Data }}{{ end }}"));
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    let why = "Template failed: vault.read(secret/none): no secret exists at secret/none";
    assert!(messages(&update).iter().any(|text| text == why), "{:?}", messages(&update));

    let fails = "{{ with secret \"secret/app/db\" }}{{ parseInt .Data.data.password }}{{ end }}";
    let id = stage.run(task(block("restart"), fails));
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    let texts = messages(&update).join("\n");
    assert!(
        texts.contains("Template failed: ") && texts.contains("[redacted]") && !texts.contains("hidden"),
        "{texts}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn task_waits_for_vault_and_an_event_says_so() {
    let vault = VaultApi::start().await;
    let stage = begin(&vault).await;
    vault.set_away(true);
    let id = stage.run(task(block("restart"), READ));
    let waits = "vault: waiting for a token: Vault: status 503: Vault is sealed";
    let update = stage.until("an event", id, |update| messages(update).iter().any(|text| text == waits)).await;
    assert!(!is_running(&update));
    vault.set_away(false);
    stage.until("running", id, is_running).await;
    assert_eq!(lines(&stage, id, "local/db.txt", 1).await, ["app:hidden"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_task_is_stopped_without_a_token() {
    let vault = VaultApi::start().await;
    let stage = begin(&vault).await;
    vault.set_away(true);
    let id = stage.run(task(block("restart"), READ));
    stage
        .until("an event", id, |update| messages(update).iter().any(|text| text.contains("waiting for a token")))
        .await;
    stage.servers.stop(id);
    stage.until_status(id, AllocClientStatus::Complete).await;
    assert_eq!(vault.made(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn task_that_the_servers_give_no_token_fails_with_their_reason() {
    let vault = VaultApi::start().await;
    let stage = Stage::with(at(&vault)).await;
    let id = stage.run(task(block("restart"), READ));
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    let why = "Vault: server failed to derive vault token: Vault is not enabled";
    assert!(messages(&update).iter().any(|text| text == why), "{:?}", messages(&update));
}

#[tokio::test(flavor = "multi_thread")]
async fn task_on_a_node_without_vault_fails() {
    let stage = Stage::with(|config| {
        config.plugins.insert("raw_exec".into(), [("enabled".to_owned(), json!(true))].into_iter().collect());
    })
    .await;
    let id = stage.servers.place(alloc(JobType::Batch, vec![task(block("restart"), READ)]));
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    assert!(messages(&update).iter().any(|text| text == "vault: this node has no Vault"), "{:?}", messages(&update));
}
