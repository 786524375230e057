//! ACL objects over HTTP. Each kind of object has its file; `own` and `bodies` have what their routes share, and
//! `caller` authenticates callers.

mod bodies;
mod bootstrap;
mod one_time;
mod own;
mod policies;
mod roles;
mod tokens;

use crate::http::mux::Mux;
use crate::server::{Regions, Upkeep, Writes};

pub(super) fn routes<S: Writes + Upkeep + Regions>(mux: &mut Mux<S>) {
    bootstrap::routes(mux);
    one_time::routes(mux);
    policies::routes(mux);
    roles::routes(mux);
    tokens::routes(mux);
}
