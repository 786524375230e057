//! Checkers: whether a cluster's behaviour, as its clients saw it, is possible for one correct server. They read
//! recorded histories, and do not depend on their source: a simulation, or real processes.

mod agree;
mod launches;
pub mod linear;
mod placement;
mod preemption;
mod regions;
mod replicas;
mod rights;
mod rollout;
mod settled;
mod stream;
mod writes;

pub use agree::{Digests, Leaders};
pub use launches::{Launch, LaunchError, Launches};
pub use linear::{NotLinearizable, check as linearizable};
pub use placement::{NodeRuns, Placed, PlacementError, Placements, Standing, Wanted, placements_are_sound};
pub use preemption::{Eviction, PreemptionError, Preemptor, preemption_is_sound};
pub use regions::{JobAtRest, Part, RegionsError, Registration, Rollouts, Step, Why, all_have_ended};
pub use replicas::{Objects, Replica, ReplicaError, replica_is_equal};
pub use rights::{Access, AccessError, access_is_right};
pub use rollout::{Replacement, TooManyAtOnce, rollout_is_sound};
pub use settled::{OpenEnds, OpenEval, Outlook, UnsettledError, all_is_settled};
pub use stream::{Frame, StreamError, stream_equals_log};
pub use writes::{Outcome, Write, WriteError, writes_are_in_the_log};
