//! Receivers of event sinks: webhooks, files, NATS and Kafka. Which events they get, and when, is the leader's part in the
//! server.

mod file;
mod kafka;
mod nats;
mod socket;
mod webhook;

use std::path::PathBuf;

use reqwest::Client;
use songline_model::{EventSink, EventSinkType};
use songline_server::event_sinks::{DeliveryError, Receiver, Receivers};

use file::File;
use kafka::Kafka;
use nats::Nats;
use webhook::Webhook;

/// Reason why a sink with a file is refused.
const NO_DIRECTORY: &str = "sinks of type file need server.event_sink_dir in the configuration of the servers";

/// The receivers that this program can deliver to.
#[derive(Debug)]
pub(crate) struct Outlets {
    http: Client,
    /// Directory of the files of sinks.
    dir: Option<PathBuf>,
}

impl Outlets {
    /// Creates the client that all webhooks share. Nothing is connected yet.
    pub fn new(dir: Option<PathBuf>) -> anyhow::Result<Self> {
        Ok(Self { http: webhook::client()?, dir })
    }
}

impl Receivers for Outlets {
    fn takes(&self, sink: &EventSink) -> Result<(), String> {
        match sink.kind {
            EventSinkType::File if self.dir.is_none() => Err(NO_DIRECTORY.to_owned()),
            EventSinkType::Webhook | EventSinkType::File | EventSinkType::Nats | EventSinkType::Kafka => Ok(()),
        }
    }

    fn open(&self, sink: &EventSink, run: u64) -> Result<Box<dyn Receiver>, DeliveryError> {
        Ok(match sink.kind {
            EventSinkType::Webhook => Box::new(Webhook::new(self.http.clone(), sink, run)?),
            EventSinkType::File => {
                let dir = self.dir.as_ref().ok_or_else(|| DeliveryError(NO_DIRECTORY.to_owned()))?;
                Box::new(File::new(dir, &sink.address, run))
            }
            EventSinkType::Nats => Box::new(Nats::new(sink, run)?),
            EventSinkType::Kafka => Box::new(Kafka::new(sink)?),
        })
    }
}
