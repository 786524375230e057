//! stub
use crate::http::mux::Mux;
use crate::server::Server;
pub(super) fn routes<S: Server>(_mux: &mut Mux<S>) {}
