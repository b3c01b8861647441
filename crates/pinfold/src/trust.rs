//! `pinfold trust`: what a repository's settings ask for, and the user's word on it.

use std::io::{self, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use pinfold_host::audit::{Audit, Event};
use pinfold_host::digest::ContentHash;
use pinfold_host::directories::Places;
use pinfold_policy::path::Escaped;
use pinfold_policy::project::Widening;
use pinfold_policy::settings::{Settings, Trust};
use pinfold_repository::{Limited, Repository, TrustStore};
use pinfold_session::{RunError, prepare};
use pinfold_terminal::notify;
use pinfold_worktree::workspace::Workspace;
use serde_json::json;

use crate::cli::Output;
use crate::exit::Failure;
use crate::image;
use crate::print::{self, say};

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Trust it without a question
    #[arg(long, short, conflicts_with_all = ["hash", "revoke", "list"])]
    yes: bool,
    /// Print the hash of the content, for --trust-config, and trust nothing
    #[arg(long, conflicts_with_all = ["revoke", "list"])]
    hash: bool,
    /// Show what the repository adds to agents' images instead of its settings
    #[arg(long, conflicts_with_all = ["revoke", "list", "sandbox_config"])]
    image: bool,
    /// Stop trusting this repository
    #[arg(long, conflicts_with = "list")]
    revoke: bool,
    /// List everything that you trust
    #[arg(long)]
    list: bool,
    /// Read the repository's settings from this file instead
    #[arg(long, value_name = "FILE")]
    sandbox_config: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn trust(args: &TrustArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let store = TrustStore::new(&places);
    if args.list {
        return list(&store, args.output.json);
    }
    let workspace = prepare::workspace(&places)?;
    if args.revoke {
        let was = store.revoke(&workspace).map_err(Failure::new)?;
        notify!("pinfold: {}", if was { "trusted no more" } else { "nothing was trusted here" });
        return Ok(ExitCode::SUCCESS);
    }
    if args.image {
        return trust_image(args, &workspace, &store, &places).map_err(Failure::plain);
    }
    let repository =
        Repository::read(&workspace, args.sandbox_config.as_deref()).map_err(RunError::from)?;
    let Some(file) = &repository.file else {
        return Err(Failure::new("no sandbox.json or sandbox.toml here"));
    };
    // What is shown and what is trusted are the bytes that were read just now.
    let base = file.base(&workspace, &places).map_err(RunError::from)?;
    let hash = file.hash(&workspace, base.as_ref()).map_err(RunError::from)?;
    if args.hash {
        say!("{hash}");
        return Ok(ExitCode::SUCCESS);
    }
    let settings = prepare::everything(&repository, Trust::Untrusted, &places)?;
    let limited = file.limited(&workspace, base.as_ref()).map_err(RunError::from)?;
    let known = store.is_trusted(&workspace, hash).map_err(Failure::new)?
        || store.is_trusted_with_higher_limits(&workspace, &limited).map_err(Failure::new)?;
    let runs = Runs {
        files: file.runs(&workspace).map_err(RunError::from)?,
        on: base.map(|base| base.path),
    };
    show(&settings, &file.path, &runs, hash, known, args.output.json)?;
    if known || settings.widenings.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    ask(args, &workspace, &store, &places, &file.path, hash, Some(limited))
}

/// Looks at what a repository adds to agents' images. Building executes it.
fn trust_image(
    args: &TrustArgs,
    workspace: &Workspace,
    store: &TrustStore,
    places: &Places,
) -> Result<ExitCode, Failure> {
    let Some(layer) = prepare::image_layer(workspace)? else {
        return Err(Failure::new("this repository adds nothing to agents' images"));
    };
    let content = layer.read(None).map_err(|error| image::failure(error.into()))?;
    let hash = ContentHash::from(content.whole.bytes());
    if args.hash {
        say!("{hash}");
        return Ok(ExitCode::SUCCESS);
    }
    let known = store.is_trusted(workspace, hash).map_err(Failure::new)?;
    let path = workspace.root.as_path().join(layer.path());
    let text = String::from_utf8_lossy(layer.dockerfile().as_bytes());
    let others: Vec<String> = layer.others().map(|path| Escaped(&path).to_string()).collect();
    if args.output.json {
        let shown = json!({
            "file": Escaped(&path).to_string(),
            "hash": hash.to_string(),
            "trusted": known,
            "dockerfile": text,
            "files": others,
        });
        print::json(&shown)?;
    } else {
        say!("{} has agents' images built with", Escaped(&path));
        for line in text.lines() {
            // A line goes on after its last backslash, which is shown as it is.
            let line = Escaped(Path::new(line)).to_string().replace("\\\\", "\\");
            say!("        {line}");
        }
        if !others.is_empty() {
            say!("It may copy these files, which are trusted as they are now:");
        }
        others.iter().for_each(|path| say!("        {path}"));
        say!("Content: {hash}{}", if known { " (trusted)" } else { "" });
    }
    if known {
        return Ok(ExitCode::SUCCESS);
    }
    ask(args, workspace, store, places, &path, hash, None)
}

/// Trusts a content from now on, if the user agrees.
fn ask(
    args: &TrustArgs,
    workspace: &Workspace,
    store: &TrustStore,
    places: &Places,
    path: &Path,
    hash: ContentHash,
    limited: Option<Limited>,
) -> Result<ExitCode, Failure> {
    if !args.yes && !agreed()? {
        notify!("pinfold: not trusted");
        return Ok(ExitCode::FAILURE);
    }
    let audit = Audit::open(&places.state, None).map_err(Failure::new)?;
    let event = Event::Trust { workspace: workspace.root.to_string(), content: hash.to_string() };
    audit.record(&event).map_err(Failure::new)?;
    store.trust(workspace, path, hash, limited).map_err(Failure::new)?;
    notify!("pinfold: trusted until it changes");
    Ok(ExitCode::SUCCESS)
}

/// What of the repository is trusted with a settings file.
struct Runs {
    /// What its commands run.
    files: Vec<PathBuf>,
    /// What sessions run on.
    on: Option<PathBuf>,
}

/// Shows what the file asks for, and what is trusted with it.
fn show(
    settings: &Settings,
    file: &Path,
    Runs { files, on }: &Runs,
    hash: ContentHash,
    known: bool,
    as_json: bool,
) -> Result<(), Failure> {
    if as_json {
        let runs: Vec<String> = files.iter().map(|path| Escaped(path).to_string()).collect();
        let shown = json!({
            "file": Escaped(file).to_string(),
            "hash": hash.to_string(),
            "trusted": known,
            "asks": settings.widenings,
            "runs": runs,
            "runs-on": on.as_ref().map(|path| Escaped(path).to_string()),
        });
        print::json(&shown)?;
        return Ok(());
    }
    let name = Escaped(file);
    if settings.widenings.is_empty() {
        say!("{name} asks for nothing beyond what you give: there is nothing to trust");
        return Ok(());
    }
    say!("{name} asks to");
    let mut asks: Vec<&Widening> = settings.widenings.iter().collect();
    asks.sort_by_key(|widening| widening.place.line);
    for widening in asks {
        say!("  {:>4}  {}  ({})", widening.place.line, widening.asks, widening.key);
    }
    if !files.is_empty() {
        say!("Its commands name these files, which are trusted as they are now:");
        for path in files {
            say!("        {}", Escaped(path));
        }
    }
    if let Some(path) = on {
        say!("Sessions run on this, which is trusted as it is now:\n        {}", Escaped(path));
    }
    say!("Content: {hash}{}", if known { " (trusted)" } else { "" });
    Ok(())
}

/// Asks the user at the terminal.
fn agreed() -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new("standard input is not a terminal, so no user can be asked")
            .hint(Some("read the above, then say --yes".to_owned())));
    }
    notify::put(format_args!("Trust this content? [y/N] "));
    io::stderr().flush().map_err(Failure::new)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Failure::new)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn list(store: &TrustStore, as_json: bool) -> Result<ExitCode, Failure> {
    let all = store.all().map_err(Failure::new)?;
    if as_json {
        print::json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        notify!("pinfold: no repository is trusted");
    }
    for trusted in all {
        for content in &trusted.contents {
            let repository = Escaped(&trusted.repository);
            say!("{}  {repository}  {}", content.since, content.hash);
        }
    }
    Ok(ExitCode::SUCCESS)
}
