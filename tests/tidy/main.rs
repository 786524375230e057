//! What the compiler does not check about this tree: which folder imports which, that the core stays pure, and how files look.
//! Not here: what the code does.

mod defects;
mod files;
mod layers;
mod paths;
mod purity;
mod tree;
