//! Services of the group: a group with services that cannot be registered does not start. Announcing them is not here:
//! the state machine orders it once the set-up is done ([`crate::runner::announce`]).

use std::future::ready;

use super::{AllocContext, AllocHook};
use crate::core::Workload;
use crate::driver::Boxed;
use crate::runner::announce;
use crate::services::Located;

pub(super) struct GroupServices;

impl AllocHook for GroupServices {
    fn name(&self) -> &'static str {
        "group_services"
    }

    fn prerun<'a>(&'a self, context: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(ready(check(context)))
    }
}

fn check(context: &AllocContext) -> Result<(), String> {
    let AllocContext { shared, alloc, dir, resources, .. } = context;
    let network = resources.network();
    let located = Located { alloc, network: network.status.as_ref(), driver: None };
    announce::registrations(shared, located, dir, &Workload::Group)?;
    announce::definitions(shared, located, dir, &Workload::Group)?;
    Ok(())
}
