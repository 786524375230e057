//! Other regions of the federation.

use std::future::Future;

use axum::extract::Request;
use axum::response::Response;

use super::{Leading, Member, PassFailure};

/// Servers of other regions, and forwarding of requests to them.
pub trait Regions: Leading {
    /// Names of all known regions, this server's among them, in alphabetical order.
    fn regions(&self) -> Vec<String> {
        vec![self.info().region.clone()]
    }

    /// Names of the other known regions whose authoritative region is this one, in alphabetical order.
    fn following_regions(&self) -> Vec<String> {
        Vec::new()
    }

    /// Addresses of the known servers of another region: those that answered last come first.
    fn servers_of_region(&self, _region: &str) -> Vec<String> {
        Vec::new()
    }

    /// Sends a request to the server of another region whose port is at `address`.
    fn pass_to_region(
        &self,
        address: &str,
        request: Request,
    ) -> impl Future<Output = Result<Response, PassFailure>> + Send {
        self.pass_on(address, request)
    }

    /// The known servers of other regions.
    fn members_elsewhere(&self) -> Vec<Member> {
        Vec::new()
    }

    /// Forgets a server of another region until it is heard of again.
    fn forget_member(&self, _name: &str) {}
}
