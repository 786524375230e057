//! Checkers: whether a cluster's behaviour, as its clients saw it, is possible for one correct server. They read
//! recorded histories, and do not depend on their source: a simulation, or real processes.

mod agree;
pub mod linear;
mod placement;
mod stream;
mod writes;

pub use agree::{Digests, Leaders};
pub use linear::{NotLinearizable, check as linearizable};
pub use placement::{NodeRuns, Placed, PlacementError, Placements, Standing, placements_are_sound};
pub use stream::{Frame, StreamError, stream_equals_log};
pub use writes::{Outcome, Write, WriteError, writes_are_in_the_log};
