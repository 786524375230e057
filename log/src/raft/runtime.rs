//! openraft's async runtime: tokio, made deterministic for simulations. Random numbers come from a seed if the thread
//! has one, and waiters for one value are woken in the order they came. Time and tasks are tokio's: a simulation pauses
//! time, and on one thread tasks run in the order they were woken.

pub(super) mod watch;

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use openraft::OptionalSend;
use openraft::async_runtime::AsyncRuntime;
use openraft::impls::TokioRuntime;
use rand::rngs::{SmallRng, ThreadRng};
use rand::{Rng, SeedableRng, TryRng};

thread_local! {
    /// Generator of this thread. openraft gets random numbers from a function without arguments, so there is no other
    /// place for it.
    static SEEDED: RefCell<Option<SmallRng>> = const { RefCell::new(None) };
}

/// Seeds consensus on this thread: a simulation runs on one thread, and the same seed gives the same run. `None`:
/// random again.
pub fn seed_this_thread(seed: Option<u64>) {
    SEEDED.with_borrow_mut(|seeded| *seeded = seed.map(SmallRng::seed_from_u64));
}

/// Random number generator for one caller.
pub(crate) enum Chance {
    Thread(ThreadRng),
    Seeded(SmallRng),
}

impl TryRng for Chance {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(match self {
            Self::Thread(rng) => rng.next_u32(),
            Self::Seeded(rng) => rng.next_u32(),
        })
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(match self {
            Self::Thread(rng) => rng.next_u64(),
            Self::Seeded(rng) => rng.next_u64(),
        })
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        match self {
            Self::Thread(rng) => rng.fill_bytes(bytes),
            Self::Seeded(rng) => rng.fill_bytes(bytes),
        }
        Ok(())
    }
}

/// openraft's runtime, on tokio.
#[derive(Debug)]
pub(crate) struct Runtime(TokioRuntime);

impl AsyncRuntime for Runtime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = Chance;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = watch::Watches;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        TokioRuntime::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: Self::Instant, future: F) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(join_error)
    }

    fn thread_rng() -> Chance {
        let seeded =
            SEEDED.with_borrow_mut(|seeded| seeded.as_mut().map(|rng| SmallRng::seed_from_u64(rng.next_u64())));
        seeded.map_or_else(|| Chance::Thread(rand::rng()), Chance::Seeded)
    }

    fn new(threads: usize) -> Self {
        Self(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }

    fn spawn_blocking<F, T>(f: F) -> impl Future<Output = Result<T, io::Error>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        TokioRuntime::spawn_blocking(f)
    }
}

#[cfg(test)]
mod tests;
