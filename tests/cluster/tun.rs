//! A network card whose cable ends in this process: packets that its owner sends are read here, and packets written
//! here are received by its owner. Whole IP packets, no frames. Not here: their routing.

use std::ffi::c_int;
use std::fs::{File, OpenOptions};

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use rustix::ioctl::{self, Setter, opcode};

/// `TUNSETIFF` of the kernel: attaches an open `/dev/net/tun` to a card, which is created if none has this name.
const SET_CARD: ioctl::Opcode = opcode::write::<c_int>(b'T', 202);
/// IP packets and not Ethernet frames.
const PACKETS: i16 = 0x0001;
/// No header before each packet.
const BARE: i16 = 0x1000;
/// Size of a card's name in bytes, with its terminating zero.
const NAME_BYTES: usize = 16;

/// `struct ifreq` of the kernel: a name, and a union of which only the flags are used.
#[repr(C)]
struct CardRequest {
    name: [u8; NAME_BYTES],
    flags: i16,
    _rest_of_union: [u8; 22],
}

/// Creates a card in the namespace of this process. The card is removed when the file is closed. Reads do not block.
pub fn open(name: &str) -> Result<File> {
    let mut request = CardRequest { name: [0; NAME_BYTES], flags: PACKETS | BARE, _rest_of_union: [0; 22] };
    let space = request.name.get_mut(..name.len()).filter(|space| space.len() < NAME_BYTES);
    space.with_context(|| format!("{name} is too long for a network card"))?.copy_from_slice(name.as_bytes());
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").context("opening /dev/net/tun")?;
    #[expect(
        unsafe_code,
        reason = "SET_CARD reads one `ifreq` and keeps no pointer to it; `CardRequest` has its layout and its 40 bytes"
    )]
    unsafe {
        ioctl::ioctl(&file, Setter::<SET_CARD, CardRequest>::new(request))
            .with_context(|| format!("making the card {name}"))?;
    }
    let flags = rustix::fs::fcntl_getfl(&file).context("reading the flags of a card")?;
    rustix::fs::fcntl_setfl(&file, flags | OFlags::NONBLOCK).context("setting the flags of a card")?;
    Ok(file)
}

/// Whether this process may create cards.
pub fn allowed() -> bool {
    File::options().read(true).write(true).open("/dev/net/tun").is_ok()
}
