//! One set of features of shared dependencies for the program, the simulator, the load tool and all tests, so that
//! building one after another compiles nothing twice. Only `Cargo.toml` matters; packages depend on it and use nothing.
