//! Stories of the agent's machines. No process, no clock: a line says what happens, the answer says what follows.

mod alloc;
mod health;
mod orders;
mod restore;
mod services;
mod small;
mod stage;
mod sync;
