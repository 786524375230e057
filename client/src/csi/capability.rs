//! The form in which a volume is used, in the protocol's terms.

use songline_model::{CsiAccessMode, CsiAttachmentMode, Str};
use songline_rpc::message::ClientMountOptions;

use super::messages::{AccessMode, Empty, MountVolume, VolumeCapability, access_type::AccessType};

/// Access and attachment mode that the protocol has no number for.
#[derive(Debug, thiserror::Error)]
pub enum UnknownMode {
    #[error("unknown volume access mode: {0}")]
    Access(CsiAccessMode),
    #[error("unknown volume attachment mode: {0}")]
    Attachment(CsiAttachmentMode),
}

/// Numbers of `VolumeCapability.AccessMode.Mode`. 0 is not known.
fn number(mode: &CsiAccessMode) -> Result<i32, UnknownMode> {
    match mode {
        CsiAccessMode::SingleNodeWriter => Ok(1),
        CsiAccessMode::SingleNodeReader => Ok(2),
        CsiAccessMode::MultiNodeReader => Ok(3),
        CsiAccessMode::MultiNodeSingleWriter => Ok(4),
        CsiAccessMode::MultiNodeMultiWriter => Ok(5),
        CsiAccessMode::Unknown | CsiAccessMode::Other(_) => Err(UnknownMode::Access(mode.clone())),
    }
}

/// The capability of these modes and mount options.
pub(super) fn capability(
    access: &CsiAccessMode,
    attachment: &CsiAttachmentMode,
    options: Option<&ClientMountOptions>,
) -> Result<VolumeCapability, UnknownMode> {
    let mode = number(access)?;
    let access_type = match attachment {
        CsiAttachmentMode::BlockDevice => AccessType::Block(Empty {}),
        CsiAttachmentMode::FileSystem => AccessType::Mount(MountVolume {
            fs_type: options.map(|options| options.filesystem.to_string()).unwrap_or_default(),
            mount_flags: options
                .and_then(|of| of.mount_flags.as_deref())
                .unwrap_or_default()
                .iter()
                .map(Str::to_string)
                .collect(),
        }),
        CsiAttachmentMode::Unknown | CsiAttachmentMode::Other(_) => {
            return Err(UnknownMode::Attachment(attachment.clone()));
        }
    };
    Ok(VolumeCapability { access_type: Some(access_type), access_mode: Some(AccessMode { mode }) })
}

/// The reason why a confirmed capability does not cover a requested one.
pub(super) fn not_covered(asked: &VolumeCapability, by: &VolumeCapability) -> Option<&'static str> {
    let mode = |of: &VolumeCapability| of.access_mode.as_ref().map_or(0, |mode| mode.mode);
    // A plugin may leave the mode open.
    if mode(by) != 0 && mode(by) != mode(asked) {
        return Some("requested access mode is not supported");
    }
    match (&asked.access_type, &by.access_type) {
        (Some(AccessType::Block(_)), Some(AccessType::Block(_))) => None,
        (Some(AccessType::Mount(asked)), Some(AccessType::Mount(by))) => {
            if asked.fs_type != by.fs_type {
                return Some("requested filesystem type is not supported");
            }
            let has = |flag| by.mount_flags.contains(flag);
            (!asked.mount_flags.iter().all(has)).then_some("requested mount flags are not supported")
        }
        (Some(AccessType::Block(_)), _) => Some("requested block device attachment is not supported"),
        (Some(AccessType::Mount(_)), _) | (None, _) => Some("requested filesystem attachment is not supported"),
    }
}
