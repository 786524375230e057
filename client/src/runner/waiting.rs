//! A runner that waits for the end of an earlier runner of the same allocation.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::{Order, Runner, Shell};
use crate::core::Input;

impl Shell {
    /// Waits until the earlier runner has removed everything. Newer copies that come meanwhile replace the machine's.
    /// Returns the other orders.
    pub(super) async fn until_destroyed(
        &mut self,
        earlier: &Runner,
        queue: &mut mpsc::UnboundedReceiver<Order>,
    ) -> VecDeque<Order> {
        let mut held = VecDeque::new();
        let mut destroyed = std::pin::pin!(earlier.wait_for(|view| view.destroyed));
        loop {
            let order = tokio::select! {
                () = &mut destroyed => break,
                Some(order) = queue.recv() => order,
            };
            held.extend(self.take_copy(order));
        }
        while let Ok(order) = queue.try_recv() {
            held.extend(self.take_copy(order));
        }
        held
    }

    /// Takes the copy of an order before the start. Returns an order that has none, or whose copy cannot be taken.
    fn take_copy(&mut self, order: Order) -> Option<Order> {
        // A reconnect is nothing more before the start: no task has run yet.
        let copy = match &order {
            Order::Input(Input::Update(copy)) | Order::Reconnect(copy) => Arc::clone(copy),
            Order::Input(_) | Order::Restart { .. } | Order::Signal { .. } => return Some(order),
        };
        if let Err(error) = self.machine.replace_copy(copy, self.shared.clock.now()) {
            tracing::warn!(alloc = %self.id(), error, "taking a newer copy of an allocation that waits");
            return Some(order);
        }
        // What the servers know of its tasks is not counted again.
        let (alloc, update) = (Arc::clone(self.machine.alloc()), self.machine.update());
        self.show.send_modify(|view| (view.alloc, view.update) = (alloc, update));
        None
    }
}
