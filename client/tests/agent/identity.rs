//! Workload identities in tasks: in the environment, in a file, or absent.

use songline_model::{
    AllocClientStatus, JobType, RootKeyId, SIGNATURE_BYTES, Signature, TaskIdentity, WorkloadIdentity,
};
use songline_rpc::Origin;

use crate::fake::{Stage, alloc, shell};

/// The identity that a task with this `identity` block finds, and the token that it could find.
async fn found(wish: Option<WorkloadIdentity>) -> (String, String) {
    let stage = Stage::new().await;
    let script =
        "echo \"env=$NOMAD_TOKEN\"; echo \"file=$(stat -c %a secrets/nomad_token) $(cat secrets/nomad_token)\"";
    let task = songline_model::Task { identity: wish, ..shell(script) };
    let mut row = alloc(JobType::Batch, vec![task]);
    row.signing_key_id = Some(RootKeyId::from_bytes([1; 16]));
    row.signed_identities =
        Some([TaskIdentity { task: "web".into(), signature: Signature([2; SIGNATURE_BYTES]) }].into());
    let id = stage.servers.place(row.clone());
    stage.until_status(id, AllocClientStatus::Complete).await;
    let token = songline_model::Allocation { id, ..row }.identity_token("web").expect("is signed").reveal().to_owned();
    (stage.logs(id, "stdout", 0, Origin::Start).await.expect("has a log"), token)
}

#[tokio::test(flavor = "multi_thread")]
async fn task_gets_its_identity_token_in_env_and_file_as_requested() {
    let (printed, token) = found(Some(WorkloadIdentity { env: true, file: true })).await;
    // Nobody but the agent's user may enter the directory: the task names no user.
    assert_eq!(printed, format!("env={token}\nfile=644 {token}\n"));
    assert_eq!(token.split('.').count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn task_without_an_identity_block_gets_no_token() {
    let (printed, _) = found(None).await;
    assert_eq!(printed, "env=\nfile= \n");
}
