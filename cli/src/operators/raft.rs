//! `operator raft`: the members of the log's replication.

use clap::Args;
use serde_json::Value;

use crate::client::{text, with_query};
use crate::exit::{Exit, Failure, Outcome, Tried};
use crate::layout::list;
use crate::{Context, General, Run, outln};

/// Arguments of `operator raft list-peers`.
#[derive(Args)]
pub(crate) struct ListPeers {
    #[command(flatten)]
    general: General,
    /// Ask this server, even when it does not lead.
    #[arg(long)]
    stale: bool,
}

impl Run for ListPeers {
    async fn run(self, _: &Context) -> Outcome {
        let stale = if self.stale { "true" } else { "" };
        let path = with_query("/v1/operator/raft/configuration", &[("stale", stale)]);
        let answer = self.general.client()?.get(&path).await.tried("Failed to retrieve raft configuration")?;
        let rows: Vec<_> = answer["Servers"].as_array().into_iter().flatten().map(row).collect();
        outln!("{}", list(&["Node", "ID", "Address", "State", "Voter", "RaftProtocol"], &rows));
        Ok(Exit::DONE)
    }
}

fn row(server: &Value) -> Vec<String> {
    let state = if server["Leader"] == true { "leader" } else { "follower" };
    vec![
        text(&server["Node"]).to_owned(),
        text(&server["ID"]).to_owned(),
        text(&server["Address"]).to_owned(),
        state.to_owned(),
        server["Voter"].to_string(),
        text(&server["RaftProtocol"]).to_owned(),
    ]
}

/// A server by its id or address.
#[derive(Args)]
pub(crate) struct Peer {
    /// Id of the server.
    #[arg(long)]
    peer_id: Option<String>,
    /// `host:port` of the server.
    #[arg(long)]
    peer_address: Option<String>,
}

impl Peer {
    /// The query, and the words of the answer; `None` when neither is given.
    fn named(&self, path: &str) -> Result<Option<(String, String)>, Failure> {
        match (&self.peer_id, &self.peer_address) {
            (Some(_), Some(_)) => Err(Failure::new("cannot give both an address and id")),
            (Some(id), None) => Ok(Some((with_query(path, &[("id", id)]), format!("id {id:?}")))),
            (None, Some(address)) => {
                Ok(Some((with_query(path, &[("address", address)]), format!("address {address:?}"))))
            }
            (None, None) => Ok(None),
        }
    }
}

/// Arguments of `operator raft remove-peer`.
#[derive(Args)]
pub(crate) struct RemovePeer {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    peer: Peer,
}

impl Run for RemovePeer {
    async fn run(self, _: &Context) -> Outcome {
        let Some((path, words)) = self.peer.named("/v1/operator/raft/peer").tried("Error removing peer")? else {
            return Err(Failure::new("Error removing peer: an address or id is required for the peer to remove"));
        };
        self.general.client()?.delete(&path).await.tried("Error removing peer")?;
        outln!("Removed peer with {words}");
        Ok(Exit::DONE)
    }
}

/// Arguments of `operator raft transfer-leadership`.
#[derive(Args)]
pub(crate) struct TransferLeadership {
    #[command(flatten)]
    general: General,
    #[command(flatten)]
    peer: Peer,
}

impl Run for TransferLeadership {
    async fn run(self, _: &Context) -> Outcome {
        let path = "/v1/operator/raft/transfer-leadership";
        let named = self.peer.named(path).tried("Error transferring leadership")?;
        let (path, words) = match named {
            Some((path, words)) => (path, format!("peer with {words}")),
            None => (path.to_owned(), "another server".to_owned()),
        };
        self.general.client()?.put(&path, &Value::Null).await.tried("Error transferring leadership")?;
        outln!("Transferred leadership to {words}");
        Ok(Exit::DONE)
    }
}
