//! `import`: an archive of Nomad with its root key files. It is read to its end here before anything is sent.

use std::fs::File;
use std::io::{BufWriter, Seek};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use songline_api::NotCarried;
use songline_model::{RootKeyMeta, WrappedKey};
use songline_projections::Table;
use songline_server::archive::Meta;
use songline_server::import::{self, ContentKind, Imported, KEY_FILE_SUFFIX, KeyFiles, RootKeyFile, RootKeys};

use songline_cli::General;
use songline_cli::table;

use super::offline;

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    target: General,
    /// Directory of the key files: `DATA_DIR/server/keystore` of a server of Nomad.
    #[arg(long, value_name = "DIR")]
    keystore: Option<PathBuf>,
    /// Show what the archive has and what is left behind; no server is asked.
    #[arg(long)]
    dry_run: bool,
    /// Leave out records of types that are unknown.
    #[arg(long)]
    skip_unknown: bool,
    /// The archive that `nomad operator snapshot save` wrote.
    file: PathBuf,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let Options { target, keystore, dry_run, skip_unknown, file } = options;
    let keys = keystore.as_deref().map(key_files).transpose()?.unwrap_or_default();
    let (meta, imported) =
        read(&file, &Files(&keys), skip_unknown).with_context(|| format!("importing {}", file.display()))?;
    show(&meta, &imported);
    if dry_run {
        songline_cli::outln!("\nNothing was sent; without -dry-run this replaces the state of the cluster.");
        return Ok(());
    }
    let mut bundle = tempfile::tempfile().context("making a file for the archive and its keys")?;
    import::write_bundle(&mut File::open(&file)?, &keys, BufWriter::new(&mut bundle))?;
    bundle.rewind()?;
    let path = format!("/v1/operator/snapshot?skip_unknown={skip_unknown}");
    target.client()?.put_file(&path, tokio::fs::File::from_std(bundle)).await?;
    songline_cli::outln!("\nState of {} imported; only tokens of the archive are valid from now on", file.display());
    Ok(())
}

/// The key files of a directory.
fn key_files(dir: &Path) -> anyhow::Result<KeyFiles> {
    let mut files = KeyFiles::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if let Some(id) = name.strip_suffix(KEY_FILE_SUFFIX).and_then(|id| id.parse().ok()) {
            let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            files.insert(id, bytes);
        }
    }
    anyhow::ensure!(!files.is_empty(), "{} has no file KEYID{KEY_FILE_SUFFIX}", dir.display());
    Ok(files)
}

/// Key files that are opened but not taken over: only servers have the key that wraps root keys.
pub(super) struct Files<'a>(pub(super) &'a KeyFiles);

impl RootKeys for Files<'_> {
    fn wrapped(&self, meta: &RootKeyMeta) -> Result<Option<WrappedKey>, String> {
        let Some(bytes) = self.0.get(&meta.key_id) else { return Ok(None) };
        let file = RootKeyFile::open(bytes).map_err(|error| error.to_string())?;
        file.key_of(meta.key_id).map_err(|error| error.to_string())?;
        Ok(Some(WrappedKey::default()))
    }
}

/// Reads an archive to its end: every sum in it, and every record.
fn read(file: &Path, keys: &Files<'_>, skip_unknown: bool) -> anyhow::Result<(Meta, Imported)> {
    let (meta, mut content, kind) = offline::unpacked(&File::open(file)?)?;
    anyhow::ensure!(
        kind == ContentKind::Nomad,
        "this is not an archive of Nomad; `songline snapshot restore` restores archives of Songline"
    );
    let imported = import::read(&mut content, &meta, keys, import::Options { skip_unknown })?;
    Ok((meta, imported))
}

fn show(meta: &Meta, imported: &Imported) {
    table::pairs(&[("ID", meta.id.clone()), ("Index", meta.index.to_string()), ("Term", meta.term.to_string())]);
    songline_cli::outln!();
    let rows: Vec<_> = Table::ALL
        .iter()
        .map(|&table| (table, imported.state.table_len(table)))
        .filter(|(_, rows)| *rows > 0)
        .map(|(table, rows)| vec![table.name().to_owned(), rows.to_string()])
        .collect();
    table::print(&["Table", "Rows"], &rows);
    songline_cli::outln!("\nNot carried");
    let left: Vec<_> = imported
        .not_carried
        .iter()
        .map(|NotCarried { what, count, reason }| {
            vec![what.clone(), if *count == 0 { "-".to_owned() } else { count.to_string() }, reason.clone()]
        })
        .collect();
    table::print(&["Content", "Number", "Reason"], &left);
}
