//! Which function answers which method of the node RPC.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use songline_api::Server;
use songline_rpc::RpcError;
use songline_rpc::msgpack::to_vec;
use songline_rpc::net::{Caller, Channel, Dispatch, Refusal};

use super::super::Core;

/// Answers the node RPC from a server.
pub(super) struct NodeRpc {
    core: Weak<Core>,
}

impl NodeRpc {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::downgrade(core) }
    }

    fn core(&self) -> Result<Arc<Core>, RpcError> {
        self.core.upgrade().ok_or_else(|| RpcError::Lost("server is shutting down".into()))
    }
}

impl Dispatch for NodeRpc {
    async fn call(&self, method: &str, _: Bytes, _: &Caller) -> Result<Bytes, Refusal> {
        let core = self.core()?;
        match method {
            "Status.Ping" => Ok(Bytes::from_static(&[0x80])),
            "Status.Leader" => Ok(encode(&core.leader_addr())?),
            "Status.Peers" => Ok(encode(&core.peer_addrs())?),
            _ => Err(Refusal::NoService),
        }
    }

    fn streams(&self, _: &str) -> bool {
        false
    }

    async fn stream(&self, _: &str, _: Channel, _: &Caller) {}
}

fn encode<T: serde::Serialize + ?Sized>(answer: &T) -> Result<Bytes, RpcError> {
    to_vec(answer).map(Bytes::from).map_err(|error| RpcError::remote(error.to_string()))
}
