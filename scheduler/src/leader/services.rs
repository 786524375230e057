//! Finds nodes whose service registrations are stale: nodes that are down or gone. Registrations that a node removes
//! itself are handled elsewhere.

use std::collections::BTreeSet;

use songline_model::{Node, NodeId, NodeStatus};
use songline_projections::{Change, State};

/// Watches nodes and their service registrations.
#[derive(Debug, Default)]
pub struct Services {
    due: BTreeSet<NodeId>,
}

impl Services {
    /// A watcher without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes every node with service registrations due. A new leader calls this.
    pub fn restore(&mut self, view: &State) {
        self.due = view.nodes_with_services().collect();
    }

    /// Notes nodes that went down or were deregistered, and nodes with new registrations.
    pub fn on_changes(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Node { before, after } if after.as_ref().is_none_or(|node| is_down(node)) => {
                    self.due.extend(after.as_ref().or(before.as_ref()).map(|node| node.id));
                }
                Change::ServiceRegistration { after: Some(row), .. } => drop(self.due.insert(row.node_id)),
                _ => {}
            }
        }
    }

    /// Makes a node due, because a decision about it was put off.
    pub fn look_again(&mut self, node: NodeId) {
        self.due.insert(node);
    }

    /// Takes the due nodes that are down or gone and still have service registrations: the registrations are to be
    /// deleted.
    pub fn take_due(&mut self, view: &State) -> Vec<NodeId> {
        let due = std::mem::take(&mut self.due).into_iter();
        let holds_no_more = |id: &NodeId| view.node(*id).is_none_or(|node| is_down(node));
        due.filter(|id| holds_no_more(id) && view.service_registrations_of_node(*id).next().is_some()).collect()
    }
}

fn is_down(node: &Node) -> bool {
    node.status == NodeStatus::Down
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use songline_commands::{
        Actor, Command, DeregisterNodes, Envelope, RegisterNode, UpdateNodeStatus, UpsertServiceRegistrations,
    };
    use songline_model::{Node, NodeId, NodeStatus, ServiceRegistration, Time, UnixSecs};
    use songline_projections::{State, apply};

    use super::Services;

    struct Cluster {
        state: State,
        services: Services,
    }

    impl Cluster {
        fn apply(&mut self, command: impl Into<Command>) -> Vec<NodeId> {
            let envelope = Envelope::new(Time::from_secs(1), Actor::Anonymous, command);
            let index = self.state.raft_index() + 1;
            let applied = apply(&mut self.state, index, &envelope);
            self.services.on_changes(&applied.changes);
            self.services.take_due(&self.state)
        }

        fn announce(&mut self, node: NodeId) -> Vec<NodeId> {
            let row =
                ServiceRegistration { id: format!("s-{node}").into(), node_id: node, ..ServiceRegistration::default() };
            self.apply(UpsertServiceRegistrations { services: vec![row] })
        }

        fn status(&mut self, node_id: NodeId, status: NodeStatus) -> Vec<NodeId> {
            self.apply(UpdateNodeStatus { node_id, status, event: None, updated_at: UnixSecs(1) })
        }
    }

    #[test]
    fn services_of_a_down_or_deregistered_node_are_deleted() {
        let [one, two, three] = [1, 2, 3].map(|n| NodeId::from_bytes([n; 16]));
        let mut cluster = Cluster { state: State::new(), services: Services::new() };
        for id in [one, two, three] {
            let node = Node { id, status: NodeStatus::Ready, ..Node::default() };
            assert!(cluster.apply(RegisterNode { node, create_node_pool: true }).is_empty());
        }
        assert!(cluster.announce(one).is_empty() && cluster.announce(two).is_empty());
        assert!(cluster.status(one, NodeStatus::Disconnected).is_empty(), "it may come back");
        assert_eq!(cluster.status(one, NodeStatus::Down), [one]);
        assert!(cluster.status(three, NodeStatus::Down).is_empty(), "it announced nothing");
        assert_eq!(cluster.announce(three), [three], "one that announces while it is down");
        assert_eq!(cluster.apply(DeregisterNodes { node_ids: vec![two] }), [two]);
        let mut young = Services::new();
        young.restore(&Arc::new(cluster.state.clone()));
        assert_eq!(young.take_due(&cluster.state), [one, two, three], "a new leader drops what an earlier one did not");
    }
}
