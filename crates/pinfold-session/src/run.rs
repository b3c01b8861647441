//! One run, from the settings to the exit status.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use pinfold_boundary::namespace::{Namespace, explain, inside_ids};
use pinfold_boundary::{
    Boundary, Changes, CpuShare, Entry, Identity, Inside, Landlock, LaunchPlan, Place, Program,
    ResourceLimits,
};
use pinfold_policy::authority::{Authority, Subject};
use pinfold_policy::origin::Origin;
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_policy::settings::{BoundaryName, LandlockMode, Settings};
use serde_json::json;

use crate::audit::{Audit, Event};
use crate::control::Control;
use crate::door::{self, Opened, Records};
use crate::gateway::Provider;
use crate::git::settle::Kept;
use crate::guard::Guard;
use crate::outcome::{Outcome, RunError};
use crate::places::Places;
use crate::resume::Resume;
use crate::review::{self, Layer, Review};
use crate::serving::Serving;
use crate::shadow::{self, Shadow};
use crate::ssh::Ssh;
use crate::state::SessionState;
use crate::supervise::{Progress, Supervision, last_words};
use crate::system::Stack;
use crate::terminal::CallerTerminal;
use crate::timeline::Timeline;
use crate::trust::{self, Trust};
use crate::view::{Extra, View};
use crate::workspace::Workspace;
use crate::{gitconfig, github, stdio, sys, userland};

/// What to run, and how.
pub struct Request {
    /// Whose session it is.
    pub subject: Subject,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The complete environment.
    pub env: Vec<(OsString, OsString)>,
    /// The settings.
    pub settings: Settings,
    /// Where it works.
    pub workspace: Workspace,
    /// Grants that come with the agent.
    pub extra: Vec<Extra>,
    /// Files that come with the agent.
    pub files: Vec<Entry>,
    /// The system it runs on; this machine's own if there is none.
    pub stack: Option<Stack>,
    /// The agent's model provider.
    pub provider: Option<Provider>,
    /// The key that signs for the inside.
    pub ssh: Option<Ssh>,
    /// Whether the agent needs namespaces of its own.
    pub nested: bool,
    /// Where pinfold keeps its files.
    pub places: Places,
    /// What was done before.
    pub timeline: Timeline,
}

/// Runs a command to its end.
///
/// The order matters. Init is cloned from this process while it has one thread and has read no
/// secret. While init builds the root, this process looks the workspace over. Nothing starts
/// before it is recorded.
///
/// # Errors
/// Whatever kept the command from being run; nothing is left behind then.
pub fn run(request: Request) -> Result<Outcome, RunError> {
    let Request { subject, argv, env, mut settings, workspace, extra, places, .. } = request;
    let mut timeline = request.timeline;
    check_boundary(&settings)?;
    github::broker(&mut settings, &workspace)?;
    let view = View::collect(subject, &settings, &workspace, request.stack.as_ref(), extra)?;
    let authority = view.authority()?;

    let mut terminal = CallerTerminal::find().map_err(RunError::terminal)?;
    if let Some(terminal) = &mut terminal {
        terminal.guard().map_err(RunError::terminal)?;
    }
    let streams = stdio::streams(terminal.as_ref().map(CallerTerminal::size))
        .map_err(|errno| RunError::System(errno.into()))?;
    let signals = sys::signal_events().map_err(|errno| RunError::System(errno.into()))?;
    let program = Program {
        argv: argv.clone(),
        env: env.clone(),
        cwd: InsidePath::new(workspace.cwd.as_path()).map_err(RunError::path)?,
    };
    let mut state = SessionState::create(&places).map_err(RunError::System)?;
    let over = workspace.under_view(&settings);
    let mut layer = over.map(|root| Layer::create(&places, state.id(), root)).transpose()?;
    let private = layer.as_ref().map_or(state.private(), Layer::private);
    let shadows = shadow::find(&settings, &workspace)?;
    let mounts = shadows.iter().map(Shadow::entries).collect::<Result<Vec<_>, _>>()?;
    if let Some(layer) = &layer {
        layer.make_places(&workspace.root, &shadows).map_err(RunError::System)?;
    }
    let mut guard = Guard::new(private, state.id(), over, shadows)?;
    let mut plan =
        plan(&view, &authority, (&settings, request.stack.as_ref()), program, streams.stdio)?;
    if let Some(layer) = &layer {
        put_view(&mut plan, &workspace.root, layer)?;
    }
    plan.tree.extend(guard.entries(workspace.root.as_path(), &places)?);
    plan.tree.extend(request.files);
    plan.tree.extend(mounts.into_iter().flatten());
    let trust = match trust::is_needed(&settings) {
        true => Some(Trust::new(&state).map_err(RunError::System)?),
        false => None,
    };
    if trust.is_none() && request.stack.as_ref().is_some_and(|stack| !stack.is_built()) {
        plan.tree.extend(trust::of_host().map_err(RunError::path)?);
    }
    plan.tree.extend(trust.as_ref().map(Trust::entry).transpose()?);
    plan.nested = request.nested;
    if request.nested {
        settings.ceiling.check_nested(&Origin::Default).map_err(RunError::settings)?;
    }
    if let Some(ssh) = &request.ssh {
        plan.tree.extend(ssh.entries()?);
    }
    plan.tree.extend(gitconfig::entry(&settings, request.ssh.as_ref())?);
    plan.doors = door::wanted(request.provider.is_some(), &settings.network, request.ssh.as_ref())?;
    timeline.done("plans the inside");
    let inside = Namespace.launch(plan)?;
    timeline.done("clones init");

    state.clean_dead().map_err(RunError::System)?;
    Review::go_on_with_all(&places);
    let audit = Audit::open(&places.state, Some(state.id().clone())).map_err(RunError::System)?;
    let audit = Arc::new(audit);
    let authority = guard.prepare(&view, &authority, &settings, &places, &mut state)?;
    let records = Arc::new(Records::new(Arc::clone(&audit), terminal.is_none()));
    let doors = inside.doors().map_err(explain)?;
    let with = (trust.as_ref(), request.ssh);
    let Opened { egress, variables, covers: trusted, policy, sockets } =
        door::open(doors, request.provider, &settings, &places, &records, with)?;
    let covers = guard.covers(&authority).into_iter().chain(trusted).collect();
    if inside.enforced.landlock == 0 {
        // The mounts carry the same verdicts; that one wall less stands is said and recorded.
        eprintln!("pinfold: note: this run has no Landlock wall (`pinfold doctor` says why)");
    }
    if let Some(cpus) = &settings.limits.cpus
        && !inside.enforced.cpus
    {
        eprintln!("pinfold: note: resources.cpus, {cpus}, cannot be enforced for this user");
    }
    if let Some(note) = guard.note() {
        eprintln!("pinfold: note: {note}");
    }
    timeline.done("looks the workspace over");
    record_session(&audit, &authority, &settings, &workspace, &inside).map_err(RunError::System)?;
    if let Some(layer) = &mut layer {
        let mut record = layer
            .describe(&workspace.root, authority.subject(), &argv, &settings)
            .map_err(RunError::System)?;
        guard.complete(&mut record);
        layer.record(&record, guard.names()).map_err(RunError::System)?;
    }
    inside.channel.seal(covers).map_err(|_| last_words(&inside))?;

    let control = policy.map(|policy| {
        let ceiling = settings.ceiling.clone();
        Control::open(state.private(), policy, ceiling, Arc::clone(&audit))
    });
    let (outputs, input) = streams.moved.start().map_err(RunError::thread)?;
    let timeout = settings.limits.timeout.as_ref();
    let mut supervision = Supervision {
        inside,
        signals,
        terminal,
        inner: None,
        outputs,
        input,
        serving: Serving::new(egress, Arc::clone(&records)),
        control: control.transpose().map_err(RunError::System)?,
        sockets,
        deadline: timeout.map(|timeout| Instant::now() + timeout.value.duration()),
        running: None,
        drained: Vec::new(),
        state: Progress { timeline, ..Progress::default() },
    };
    supervision.receive_terminal()?;
    let resume = Resume {
        commands: &settings.resume,
        mode: settings.workspace_mode.value,
        env: &env,
        variables: &variables,
        cwd: &workspace.root,
        audit: &audit,
    };
    let ended = conduct(supervision, &resume, || record_launch(&audit, &argv, &workspace.cwd));
    // Whatever has run inside, what it left is looked over.
    let mut notes = records.rest();
    notes.extend(settle(&guard, &settings, &audit).map_err(RunError::System)?);
    let mut outcome = match ended {
        Ok(outcome) => outcome,
        Err(error) => {
            let session = state.id().clone();
            drop((guard, state));
            if layer.is_some() {
                notes.extend(review::conclude(&places, &session));
            }
            for note in &notes {
                eprintln!("pinfold: {note}");
            }
            return Err(error);
        }
    };
    outcome.notes = notes;
    outcome.reached = records.reached();
    let limit = outcome.limit.map(crate::LimitReached::name);
    audit.record(&Event::End { status: outcome.status, limit }).map_err(RunError::System)?;
    let session = state.id().clone();
    drop((guard, state));
    if layer.is_some() {
        outcome.notes.extend(review::conclude(&places, &session));
    }
    outcome.timeline.done("settles and cleans up");
    Ok(outcome)
}

/// From the repository's commands to the end of everything inside.
fn conduct(
    mut supervision: Supervision,
    resume: &Resume<'_>,
    record: impl FnOnce() -> io::Result<()>,
) -> Result<Outcome, RunError> {
    match supervision.resume(resume) {
        Ok(true) => {
            record().map_err(RunError::System)?;
            supervision.start(resume.variables.to_vec())?;
            supervision.state.timeline.done("records the start");
        }
        // Its end is on its way.
        Ok(false) => {}
        Err(error) => {
            supervision.inside.kill();
            supervision.until_end()?;
            return Err(error);
        }
    }
    supervision.until_end()
}

/// One boundary exists in this version; a choice of another is refused, not replaced.
fn check_boundary(settings: &Settings) -> Result<(), RunError> {
    let refuse = |what: String| RunError::refused(what, Some("leave --boundary out".to_owned()));
    match &settings.boundary {
        Some(chosen) if chosen.value != BoundaryName::Namespace => {
            let (name, origin) = (chosen.value.word(), &chosen.origin);
            Err(refuse(format!(
                "boundary {name} (by {origin}) is not in this version: it has namespace"
            )))
        }
        None if !settings.ceiling.allows_boundary(BoundaryName::Namespace) => {
            Err(refuse("the administrator's policy allows no boundary of this version".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Gives the inside a view of the workspace instead of the workspace.
fn put_view(plan: &mut LaunchPlan, root: &HostPath, layer: &Layer) -> Result<(), RunError> {
    let layers = HostPath::new(layer.layers()).map_err(RunError::path)?;
    let is_root = |place: &Place| matches!(place, Place::Writable(host) if host == root);
    for entry in plan.tree.iter_mut().filter(|entry| is_root(&entry.place)) {
        let (lower, changes) = (vec![root.clone()], Changes::Kept(layers.clone()));
        entry.place = Place::Overlay { lower, changes };
    }
    Ok(())
}

fn plan(
    view: &View,
    authority: &Authority,
    (settings, stack): (&Settings, Option<&Stack>),
    program: Program,
    stdio: pinfold_boundary::Stdio,
) -> Result<LaunchPlan, RunError> {
    let (uid, gid) = match stack {
        Some(stack) if stack.is_built() => (0, 0),
        _ => inside_ids(),
    };
    let mut tree = view.tree(authority, stack)?;
    tree.extend(userland::generated(uid, gid, stack).map_err(RunError::path)?);
    let limits = &settings.limits;
    Ok(LaunchPlan {
        tree,
        program,
        identity: Identity {
            uid,
            gid,
            home: InsidePath::new(userland::HOME).map_err(RunError::path)?,
        },
        hostname: "pinfold".to_owned(),
        doors: Vec::new(),
        stdio,
        limits: ResourceLimits {
            memory: limits.memory.as_ref().map(|limit| limit.value.bytes()),
            cpus: limits.cpus.as_ref().map(|limit| CpuShare {
                thousandths: limit.value.thousandths(),
                // What a repository asks for is no person's wish.
                required: !matches!(limit.origin, Origin::Project(_)),
            }),
            pids: limits.pids.as_ref().map(|limit| limit.value),
            disk: limits.disk.as_ref().map(|limit| limit.value.bytes()),
            changes: stack.and_then(Stack::bytes),
            files: limits.files.as_ref().map(|limit| limit.value),
        },
        landlock: match settings.landlock.value {
            LandlockMode::Required if !settings.allow_weaker.value => Landlock::Required,
            LandlockMode::Required | LandlockMode::BestEffort => Landlock::BestEffort,
        },
        nested: false,
    })
}

fn record_session(
    audit: &Audit,
    authority: &Authority,
    settings: &Settings,
    workspace: &Workspace,
    inside: &Inside,
) -> io::Result<()> {
    audit.record(&Event::Session {
        subject: authority.subject().to_string(),
        identity: settings.identity.as_ref().map(|identity| identity.value.as_str()),
        workspace: workspace.root.to_string(),
        boundary: Namespace.name(),
        enforced: json!({
            "landlock": inside.enforced.landlock,
            "memory-group": inside.enforced.memory,
        }),
        grants: authority.grants().map(Into::into).collect(),
        restrictions: authority.restrictions().map(Into::into).collect(),
    })
}

/// Takes over what is harmless of the changes inside, and records what is not.
fn settle(guard: &Guard, settings: &Settings, audit: &Audit) -> io::Result<Vec<String>> {
    let settled = guard.settle(settings);
    for Kept { what, why, .. } in &settled.kept {
        audit.record(&Event::Kept { what: what.clone(), reason: why.to_string() })?;
    }
    Ok(settled.notes())
}

/// Records that a command is about to be started.
///
/// # Errors
/// A log that cannot be written: then nothing is started.
pub(crate) fn record_launch(audit: &Audit, argv: &[OsString], cwd: &HostPath) -> io::Result<()> {
    audit.record(&Event::Launch {
        argv: argv.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        cwd: cwd.to_string(),
        handled_by: vec![Namespace.name().to_owned()],
    })
}
