//! Server ids: their text form, and the file that keeps a server's own id.

use std::io;
use std::path::Path;

use songline_log::{Disk, NodeId as ServerId};
use songline_rpc::world::World;
use uuid::Uuid;

/// Id of a server whose directory is older than the id file.
const FIRST_ID: ServerId = 1;

/// A server's id as operators and clients see it: a UUID that encodes only the number.
pub fn id_text(id: ServerId) -> String {
    Uuid::from_u64_pair(id, mixed(id)).to_string()
}

/// Id of a server by its UUID; `None` when the UUID encodes no server id.
pub(crate) fn id_of(text: &str) -> Option<ServerId> {
    let (id, check) = Uuid::parse_str(text).ok()?.as_u64_pair();
    (check == mixed(id)).then_some(id)
}

fn mixed(id: ServerId) -> u64 {
    let hash = blake3::hash(&id.to_be_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_be_bytes(first)
}

/// Id of the server with this directory. A new directory gets a random id.
pub fn identity(dir: &Path, disk: &dyn Disk, world: &dyn World) -> io::Result<ServerId> {
    let path = dir.join("id");
    match disk.read(&path) {
        Ok(text) => {
            let text = String::from_utf8_lossy(&text);
            let wrong = || {
                io::Error::new(io::ErrorKind::InvalidData, format!("{} does not hold a server's id", path.display()))
            };
            return id_of(text.trim()).ok_or_else(wrong);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let old = disk.exists(&dir.join("log"));
    // Numbers below 2^53 survive programs that read them as floating point.
    let id = if old { FIRST_ID } else { (world.number() >> 11) | 2 };
    disk.put(&path, format!("{}\n", id_text(id)).as_bytes(), false)?;
    Ok(id)
}

#[cfg(test)]
mod tests;
