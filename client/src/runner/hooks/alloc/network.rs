//! The network that the tasks of the allocation share.

use super::{AllocContext, AllocHook};
use crate::core::Input;
use crate::driver::Boxed;
use crate::network;
use crate::runner::environment;

pub(super) struct Network;

impl AllocHook for Network {
    fn name(&self) -> &'static str {
        "network"
    }

    /// Makes the network, or finds that of an earlier agent again.
    fn prerun<'a>(&'a self, context: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(async move {
            let AllocContext { shared, alloc, dir, resources, .. } = context;
            if !network::is_wanted(alloc) {
                return Ok(());
            }
            let wanted = network::of(alloc, &environment::of_group(shared, alloc, dir), &shared.drivers)?;
            let made = shared.networks.create(&alloc.id, &wanted).await?;
            if let Some(status) = &made.status {
                shared.state.put_network(&alloc.id, status);
                context.tell(Input::Networked(status.clone()));
            }
            resources.set_network(made);
            Ok(())
        })
    }

    /// Comes before the allocation counts as done: the next one on this node may get its ports.
    fn postrun<'a>(&'a self, context: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(remove(context))
    }

    /// Tries again what `postrun` could not remove.
    fn destroy<'a>(&'a self, context: &'a AllocContext) -> Boxed<'a, Result<(), String>> {
        Box::pin(remove(context))
    }
}

/// Removes the network, if there is one. A failure is no error of the hook: it was logged.
async fn remove(context: &AllocContext) -> Result<(), String> {
    context.shared.networks.destroy(&context.alloc.id).await;
    Ok(())
}
