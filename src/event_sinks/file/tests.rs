//! Appending to a file: nothing twice within a run, torn lines, positions that were set back, and rotation.

use anyhow::Result;
use bytes::Bytes;

use super::*;

fn frame(position: u64) -> Frame {
    let line = Bytes::from(format!("{{\"Events\":[{{}}],\"Index\":{position}}}\n"));
    Frame { position, line, events: 1 }
}

fn append(dir: &Path, run: u64, positions: &[u64]) -> Result<()> {
    let frames: Vec<Frame> = positions.iter().map(|position| frame(*position)).collect();
    Ok(File::new(dir, "audit", run).append(&frames)?)
}

/// Indexes of the file's lines.
fn indexes(dir: &Path) -> Result<Vec<u64>> {
    let text = fs::read_to_string(dir.join("audit"))?;
    text.lines().map(|line| Ok(serde_json::from_str::<Value>(line)?["Index"].as_u64().unwrap_or(0))).collect()
}

#[test]
fn frames_of_a_repeated_delivery_are_in_the_file_once() -> Result<()> {
    let dir = tempfile::tempdir()?;
    append(dir.path(), 5, &[6, 7])?;
    append(dir.path(), 5, &[6, 7])?;
    append(dir.path(), 5, &[7, 8])?;
    assert_eq!(indexes(dir.path())?, [6, 7, 8]);
    Ok(())
}

#[test]
fn a_line_that_a_crash_cut_off_is_written_again() -> Result<()> {
    let dir = tempfile::tempdir()?;
    append(dir.path(), 5, &[6])?;
    OpenOptions::new().append(true).open(dir.path().join("audit"))?.write_all(b"{\"Events\":[")?;
    append(dir.path(), 5, &[7])?;
    assert_eq!(indexes(dir.path())?, [6, 7]);
    Ok(())
}

#[test]
fn a_new_run_delivers_again_what_an_earlier_run_has_written() -> Result<()> {
    let dir = tempfile::tempdir()?;
    append(dir.path(), 5, &[6, 7, 8])?;
    append(dir.path(), 9, &[6])?;
    append(dir.path(), 9, &[6, 7])?;
    assert_eq!(indexes(dir.path())?, [6, 7, 8, 6, 7]);
    Ok(())
}

#[test]
fn a_run_that_has_written_nothing_yet_skips_nothing() -> Result<()> {
    let dir = tempfile::tempdir()?;
    append(dir.path(), 5, &[6, 7, 8])?;
    append(dir.path(), 9, &[])?;
    append(dir.path(), 9, &[6])?;
    assert_eq!(indexes(dir.path())?, [6, 7, 8, 6]);
    Ok(())
}

#[test]
fn a_file_that_was_moved_away_begins_anew() -> Result<()> {
    let dir = tempfile::tempdir()?;
    append(dir.path(), 4, &[3])?;
    append(dir.path(), 5, &[6, 7])?;
    fs::rename(dir.path().join("audit"), dir.path().join("audit.1"))?;
    append(dir.path(), 5, &[8])?;
    append(dir.path(), 5, &[8, 9])?;
    assert_eq!(indexes(dir.path())?, [8, 9]);
    Ok(())
}

#[test]
fn a_gap_counts_as_the_last_entry_that_is_gone() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let gap = Frame { position: 9, line: Bytes::from("{\"Index\":0,\"Gap\":{\"Oldest\":10}}\n"), events: 0 };
    let file = File::new(dir.path(), "audit", 5);
    file.append(std::slice::from_ref(&gap))?;
    file.append(&[gap, frame(10)])?;
    assert_eq!(indexes(dir.path())?, [0, 10]);
    Ok(())
}

#[test]
fn a_link_is_not_followed() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let elsewhere = tempfile::NamedTempFile::new()?;
    std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("audit"))?;
    assert!(append(dir.path(), 5, &[6]).is_err());
    assert_eq!(fs::read(elsewhere.path())?, b"");
    Ok(())
}

#[test]
fn the_last_line_is_found_across_pieces() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let long = "x".repeat(3 * usize::try_from(PIECE)?);
    let line = Bytes::from(format!("{{\"Events\":[{{\"Key\":\"{long}\"}}],\"Index\":6}}\n"));
    let file = File::new(dir.path(), "audit", 5);
    file.append(&[Frame { position: 6, line, events: 1 }])?;
    file.append(&[frame(6), frame(7)])?;
    assert_eq!(indexes(dir.path())?, [6, 7]);
    Ok(())
}
