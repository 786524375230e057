//! Images: pulls, each at most once at a time, and the removal of images that no run uses any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bollard::auth::DockerCredentials;
use bollard::models::ImageInspect;
use bollard::query_parameters::{CreateImageOptionsBuilder, ImportImageOptions, RemoveImageOptions};
use futures_util::StreamExt;
use parking_lot::Mutex;
use songline_model::Str;
use tokio::io::AsyncRead;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::io::ReaderStream;

use super::engine::{Engine, Failure};
use super::image::ImageName;
use super::progress::Progress;
use crate::driver::Listener;

/// Interval of the messages about a pull's progress.
const PROGRESS_PERIOD: Duration = Duration::from_secs(120);
/// Timeout of loading an archive.
const LOAD_MAX: Duration = Duration::from_secs(60 * 60);

/// The images of an engine.
#[derive(Debug)]
pub(super) struct Images {
    engine: Arc<Engine>,
    /// Longest silence of the engine during a pull.
    activity_timeout: Duration,
    /// Time for which an image without a user is kept; `None` keeps it for ever.
    delay: Option<Duration>,
    pulls: Mutex<BTreeMap<String, Weak<Pull>>>,
    users: Arc<Mutex<Users>>,
}

/// An image that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    pub id: String,
    /// The user that its containers run as unless they are told another one; empty is root.
    pub user: String,
}

impl Image {
    /// The image of the engine's description; `None` if that has no id.
    fn of(told: ImageInspect) -> Option<Self> {
        let user = told.config.and_then(|config| config.user).unwrap_or_default();
        Some(Self { id: told.id?, user })
    }
}

/// Users of images by image id, and the removals that are due.
#[derive(Debug, Default)]
struct Users {
    runs: BTreeMap<String, BTreeSet<String>>,
    removals: BTreeMap<String, AbortHandle>,
}

/// A pull that somebody waits for. When nobody does any more, the pull ends.
#[derive(Debug)]
struct Pull {
    state: watch::Receiver<State>,
    work: AbortHandle,
}

#[derive(Debug, Clone, Default)]
struct State {
    progress: Progress,
    /// The image, once the pull has ended.
    ended: Option<Result<Image, Failure>>,
}

impl Drop for Pull {
    fn drop(&mut self) {
        self.work.abort();
    }
}

impl Images {
    /// Creates the images of an engine.
    pub fn new(engine: Arc<Engine>, activity_timeout: Duration, delay: Option<Duration>) -> Self {
        Self { engine, activity_timeout, delay, pulls: Mutex::default(), users: Arc::default() }
    }

    /// An image that is here; `None` if it is not.
    pub async fn find(&self, name: &str) -> Result<Option<Image>, Failure> {
        match self.engine.client().await?.inspect_image(name).await.map_err(Failure::from) {
            Ok(image) => Ok(Image::of(image)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Pulls an image. Pulls of one image at the same time are one pull; all that wait for it hear
    /// of its progress.
    pub async fn pull(
        &self,
        image: &ImageName,
        credentials: Option<DockerCredentials>,
        timeout: Duration,
        listener: &Listener,
    ) -> Result<Image, Failure> {
        let name = image.reference();
        listener.tell("Downloading image", [("image".into(), Str::from(name.as_str()))].into());
        let pull = self.joined(image, credentials);
        let mut state = pull.state.clone();
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + PROGRESS_PERIOD, PROGRESS_PERIOD);
        let told = async {
            loop {
                tokio::select! {
                    ended = state.wait_for(|state| state.ended.is_some()) => {
                        let ended = ended.map(|state| state.ended.clone());
                        return ended.ok().flatten().unwrap_or_else(|| Err(Failure::new("the pull was given up")));
                    }
                    _ = ticks.tick() => {
                        let text = pull.state.borrow().progress.to_string();
                        let details = [("image".into(), Str::from(name.as_str()))].into();
                        listener.tell(format!("Docker image pull progress: {text}"), details);
                    }
                }
            }
        };
        match tokio::time::timeout(timeout, told).await {
            Ok(ended) => ended,
            Err(_) => Err(Failure::new(format!("the pull took longer than {} s", timeout.as_secs()))),
        }
    }

    /// The running pull of an image, or a new one.
    fn joined(&self, image: &ImageName, credentials: Option<DockerCredentials>) -> Arc<Pull> {
        let mut pulls = self.pulls.lock();
        pulls.retain(|_, pull| pull.strong_count() > 0);
        // Runs with other credentials may be refused what this one gets.
        let user = credentials.as_ref().and_then(|told| told.username.clone()).unwrap_or_default();
        let key = format!("{user} {}", image.reference());
        let running = pulls.get(&key).and_then(Weak::upgrade).filter(|pull| pull.state.borrow().ended.is_none());
        if let Some(running) = running {
            return running;
        }
        let (tell, state) = watch::channel(State::default());
        let (engine, image, silence) = (Arc::clone(&self.engine), image.clone(), self.activity_timeout);
        let work = tokio::spawn(async move {
            let ended = pull(&engine, &image, credentials, silence, &tell).await;
            tell.send_modify(|state| state.ended = Some(ended));
        });
        let pull = Arc::new(Pull { state, work: work.abort_handle() });
        pulls.insert(key, Arc::downgrade(&pull));
        pull
    }

    /// Loads the images of an archive.
    pub async fn load(&self, archive: impl AsyncRead + Send + 'static) -> Result<(), Failure> {
        // The engine answers after it has read the archive.
        let client = self.engine.client().await?.with_timeout(LOAD_MAX);
        let pieces = ReaderStream::new(archive);
        let mut steps = client.import_image_stream(ImportImageOptions::default(), pieces, None).boxed();
        while let Some(step) = steps.next().await {
            let step = step?;
            if let Some(error) = step.error_detail.and_then(|detail| detail.message) {
                return Err(Failure::new(error));
            }
        }
        Ok(())
    }

    /// Records that a run uses an image: the image is kept.
    pub fn keep(&self, image: &str, run: &str) {
        let mut users = self.users.lock();
        users.runs.entry(image.to_owned()).or_default().insert(run.to_owned());
        if let Some(removal) = users.removals.remove(image) {
            removal.abort();
        }
    }

    /// Records that a run does not use its image any more. The last user's image is removed after the delay.
    pub fn release(&self, run: &str) {
        let mut users = self.users.lock();
        let mut unused = Vec::new();
        users.runs.retain(|image, runs| {
            let was_user = runs.remove(run);
            if was_user && runs.is_empty() {
                unused.push(image.clone());
            }
            !runs.is_empty()
        });
        let Some(delay) = self.delay else { return };
        for image in unused {
            let (engine, all, name) = (Arc::clone(&self.engine), Arc::clone(&self.users), image.clone());
            let removal = tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                // From here on a new user finds the image, or pulls it again.
                all.lock().removals.remove(&name);
                remove(&engine, &name).await;
            });
            users.removals.insert(image, removal.abort_handle());
        }
    }
}

async fn remove(engine: &Engine, image: &str) {
    let removed = async {
        engine.client().await?.remove_image(image, None::<RemoveImageOptions>, None).await.map_err(Failure::from)
    };
    match removed.await {
        Ok(_) => tracing::debug!(image, "removed an image without a user"),
        Err(failure) if failure.is_not_found() => {}
        // Other users of the engine may use the image.
        Err(failure) => tracing::debug!(image, %failure, "an image without a user stays"),
    }
}

async fn pull(
    engine: &Engine,
    image: &ImageName,
    credentials: Option<DockerCredentials>,
    silence: Duration,
    tell: &watch::Sender<State>,
) -> Result<Image, Failure> {
    // The engine begins its answer when the registry has answered.
    let client = engine.client().await?.with_timeout(silence);
    let options = CreateImageOptionsBuilder::default().from_image(&image.repository).tag(&image.tag).build();
    let mut steps = client.create_image(Some(options), None, credentials).boxed();
    loop {
        let step = tokio::time::timeout(silence, steps.next()).await;
        match step.map_err(|_| Failure::new(format!("the pull made no progress for {} s", silence.as_secs())))? {
            None => break,
            Some(step) => {
                let step = step?;
                tell.send_modify(|state| state.progress.note(&step));
            }
        }
    }
    let found = client.inspect_image(&image.reference()).await?;
    Image::of(found).ok_or_else(|| Failure::new(format!("image {} has no id", image.reference())))
}
