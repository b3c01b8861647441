//! One run, from the settings to the exit status.

mod dead;
mod live;
mod nested;
mod open;
mod record;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pinfold_boundary::namespace::explain;
use pinfold_boundary::{Boundary, Feature, Inside, Program, Session as OfSession};
use pinfold_hide as hide;
use pinfold_host::audit::{Audit, Event, Purpose};
use pinfold_host::launcher::record_launch;
use pinfold_host::note::Note;
use pinfold_host::session_id::SessionId;
use pinfold_host::sessions::SessionState;
use pinfold_host::sys;
use pinfold_hostexec::{Broker, Context, PathMap, Question, SoFar};
use pinfold_policy::path::{Escaped, HostPath, InsidePath};
use pinfold_protect::masks::{Fell, Kept, Masks};
use pinfold_protect::patience::Patience;
use pinfold_rootfs::userland;
use pinfold_terminal::notices::Notices;
use pinfold_terminal::notify;
use pinfold_terminal::prompt_overlay::Passage;
use pinfold_workspace::git::sync::{Sync, Synced};
use pinfold_workspace::refresh::Refresh;
use pinfold_workspace::review::{self, Layer, Review};
use pinfold_workspace::workspace::Workspace;

use crate::control::{Base, Control, Rules};
use crate::design::{self, Design};
use crate::door::{self, LiveLines, Opened, Records};
use crate::filling::Filling;
use crate::outcome::{Outcome, RunError};
use crate::request::Request;
use crate::resume::Resume;
use crate::serving::Serving;
use crate::supervise::{HASTE, Progress, Supervision};
use crate::timeline::Timeline;
use crate::{idle, wall};

use dead::clean_up_after_others;
use live::{Furnished, Live, keep, refresh};
use open::{open_streams, wrapped};
use record::{record_session, record_settled, say_what_is_hidden, say_what_is_less};

/// Runs a command to its end.
///
/// The order matters. Init is cloned from this process while it has one thread and has read no
/// secret. While init builds the root, this process looks the workspace over. Nothing starts
/// before it is recorded.
///
/// # Errors
/// Whatever kept the command from being run; nothing is left behind then.
pub fn run(mut request: Request) -> Result<Outcome, RunError> {
    let mut timeline = std::mem::take(&mut request.timeline);
    let is_idle = request.argv.is_empty();
    let (terminal, streams) = open_streams(&request)?;
    let signals = sys::signal_events().map_err(|errno| RunError::System(errno.into()))?;
    let wants_terminal = streams.wants_terminal();
    let (mut session, mut inside) = Session::begin(&mut request, &mut timeline, wants_terminal)?;
    request.launcher.act_for(&session.design.authority);
    // While init builds the root.
    let masks = Masks::start()?;
    let launch = wrapped(&request, session.boundary.name())?;
    let program = Program {
        argv: launch.argv.clone(),
        env: launch.env.clone(),
        cwd: InsidePath::new(&launch.cwd).map_err(RunError::path)?,
        ignored: sys::ignored_signals(),
    };
    inside.command(&program, streams.stdio).map_err(explain)?;

    let granted = session.granted();
    clean_up_after_others(&mut session.state, &request, &granted)?;
    if let Some(name) = &request.name {
        let named = session.state.set_name(&request.places, name);
        named.map_err(|error| RunError::refused(error, None))?;
    }
    Review::go_on_with_all(request.host());
    let id = Some(session.state.id().clone());
    let audit = Arc::new(Audit::open(&request.places.state, id).map_err(RunError::System)?);
    request.launcher.record_in(&audit);
    let may_interrupt = request.provider.is_some() || request.settings.host_exec.enabled.value;
    let passage = (may_interrupt && terminal.is_some()).then(Arc::<Passage>::default);
    let live = match &passage {
        Some(passage) => LiveLines::Urgent(Arc::new(Notices::new(Arc::clone(passage)))),
        None if terminal.is_none() && request.window.is_none() => LiveLines::All,
        None => LiveLines::None,
    };
    let silent = std::mem::take(&mut request.silent_hosts);
    let records = Arc::new(Records::new(Arc::clone(&audit), live, silent));
    let Furnished { opened, asked, live, view } =
        session.furnish(&mut request, &mut inside, &records, &audit)?;
    let over = request.workspace.under_view(&request.settings).map(HostPath::as_path);
    let hidden = live.hidden();
    let masks = keep(masks, live, &mut inside, over).map_err(RunError::thread)?;
    let asked_here = passage.as_ref().filter(|_| request.attended);
    let broker = asked.map(|asked| session.broker(asked, &request, &audit, asked_here));
    let broker = broker.transpose()?;
    timeline.done("looks the workspace over");

    let settings = &request.settings;
    let by_proxy = opened.by_proxy;
    let base = session.base(&request, &opened);
    let rules = opened.policy.map(|policy| {
        let (ceiling, audit) = (settings.ceiling.clone(), Arc::clone(&audit));
        Rules { policy, ceiling, audit, by_proxy }
    });
    sys::allow_many_files();
    let control = Control::open(session.state.private(), rules, base, Arc::clone(&audit));
    let approvals = broker.as_ref().map(|broker| Arc::clone(broker.approvals()));
    let (outputs, input) = streams.moved.start().map_err(RunError::thread)?;
    let timeout = settings.limits.timeout.as_ref();
    let mut supervision = Supervision {
        inside,
        signals,
        terminal,
        window: request.window,
        inner: None,
        outputs,
        input,
        serving: Serving::new(opened.egress, Arc::clone(&records)),
        control: control.map_err(RunError::System)?.with_approvals(approvals),
        broker,
        passage,
        sockets: opened.sockets,
        is_idle,
        filling: request.bound.take().map(Filling::watch).transpose().map_err(RunError::thread)?,
        deadline: timeout.map(|timeout| Instant::now() + timeout.value.duration()),
        background: request
            .background
            .take()
            .map(|background| background.of(session.state.id(), request.name.as_ref())),
        running: None,
        drained: Vec::new(),
        state: Progress { timeline, ..Progress::default() },
    };
    supervision.inside.limit_patience(HASTE).map_err(RunError::System)?;
    supervision.receive_terminal()?;
    let resume = Resume {
        commands: &settings.resume,
        mode: settings.workspace_mode.value,
        env: &request.env,
        variables: &opened.variables,
        cwd: &request.workspace.root,
        audit: &audit,
        launcher: &request.launcher,
        boundary: session.boundary.name(),
    };
    let start = || match is_idle {
        true => Ok(()),
        false => record_launch(&audit, Purpose::Command, &launch),
    };
    let waits = is_idle && supervision.background.is_none();
    let announced = waits.then(|| session.state.id().clone());
    session.state.lend_lock().map_err(RunError::System)?;
    let sync = session.bring_in_step().map_err(RunError::thread)?;
    let refresh = refresh(view, &request.workspace, hidden, masks.as_ref());
    let refresh = refresh.map_err(RunError::thread)?;
    let ended = conduct(supervision, &resume, start, announced.as_ref());
    // It has the masks' channel.
    let notes = refresh.map(Refresh::end).unwrap_or_default();
    let (fell, _ending) = masks.map(Kept::end).unzip();
    let synced = sync.map(Sync::end).unwrap_or_default();
    let mut fell = fell.unwrap_or_default();
    fell.notes.extend(notes);
    let with = (synced, fell);
    session.conclude(ended, &request, &records, &audit, with)
}

/// What a run keeps from before its inside to after it.
struct Session {
    design: Design,
    state: SessionState,
    boundary: Box<dyn Boundary>,
}

impl Session {
    /// Decides what the sandbox will be, and makes it.
    ///
    /// # Errors
    /// What the machine, the settings or the workspace do not allow.
    fn begin(
        request: &mut Request,
        timeline: &mut Timeline,
        wants_terminal: bool,
    ) -> Result<(Self, Inside), RunError> {
        let boundary = design::settle(request)?;
        let wants = [
            (wants_terminal, Feature::Terminal),
            (!request.settings.publish.is_empty(), Feature::Publish),
        ];
        for (_, feature) in wants.into_iter().filter(|(is_wanted, _)| *is_wanted) {
            wall::insist(boundary.as_ref(), feature, &request.launcher)?;
        }
        let (design, state, plan) = design::make(request)?;
        timeline.done("plans the sandbox");
        // Before there is anything that somebody might have to find by it.
        state.set_boundary(boundary.name()).map_err(RunError::System)?;
        let session = OfSession { name: state.id().as_str(), directory: state.private() };
        let inside = boundary.launch(plan, session)?;
        timeline.done("clones init");
        Ok((Self { design, state, boundary }, inside))
    }

    /// Scans the workspace while init builds the root, opens the doors, and lets init seal the
    /// sandbox once all of that is recorded.
    ///
    /// # Errors
    /// A workspace that cannot be protected, a door that cannot be opened, a log that cannot be
    /// written, or an init that has failed.
    fn furnish(
        &mut self,
        request: &mut Request,
        inside: &mut Inside,
        records: &Arc<Records>,
        audit: &Audit,
    ) -> Result<Furnished, RunError> {
        let (provider, ssh) = (request.provider.take(), request.ssh.take());
        let Request { settings, workspace, places, argv, .. } = &*request;
        let Design { view, authority, layer, guard, trust, stand_ins } = &mut self.design;
        layer.as_mut().map_or(Ok(()), Layer::begin).map_err(RunError::System)?;
        let restrictions = guard.prepare(authority, settings, places, &mut self.state)?;
        let authority = view.restricted(restrictions)?;
        say_what_is_hidden(&authority, workspace);
        for path in hide::replaced(places, workspace.root.as_path()) {
            let path = Escaped(&path);
            notify!(
                "pinfold: note: the link of {path}, which was hidden, is a file again, as after a \
                 save by renaming (`pinfold hide {path}` moves it out again)"
            );
        }
        let mut doors = inside.doors().map_err(explain)?;
        let (mounts, view) = (doors.mounts.take(), doors.view.take());
        // It is the first of the plan's.
        let asks = settings.host_exec.enabled.value && !doors.sockets.is_empty();
        let host_exec = asks.then(|| doors.sockets.remove(0));
        let with = (trust.as_ref(), ssh);
        let mut opened = door::open(doors, provider, settings, request.host(), records, with)?;
        let trusted = std::mem::take(&mut opened.covers);
        if let Some(stand_ins) = stand_ins {
            stand_ins.fill(&authority, &opened.variables).map_err(RunError::System)?;
        }
        let masks = guard.covers(&authority, stand_ins.as_ref());
        let over = workspace.under_view(settings);
        if request.nested {
            nested::refuse_live_masks(&masks, over.map(HostPath::as_path), workspace)?;
        }
        let covers = masks.iter().cloned().chain(trusted).collect();
        say_what_is_less(settings, inside, self.boundary.lacks());
        let record =
            record_session(&authority, settings, workspace, (self.boundary.name(), inside));
        audit.record(&record).map_err(RunError::System)?;
        if let Some(layer) = layer {
            if let Some(note) = Layer::note(&workspace.root) {
                notify!("pinfold: note: {note}");
            }
            let mut record = layer
                .describe(&workspace.root, authority.subject(), argv, settings)
                .map_err(RunError::System)?;
            guard.complete(&mut record);
            layer.record(&record, guard.names()).map_err(RunError::System)?;
        }
        inside.seal(covers).map_err(explain)?;
        let asked = host_exec.map(|listener| (listener, PathMap::new(authority, over.cloned())));
        Ok(Furnished { opened, asked, live: Live { masks, mounts }, view })
    }

    /// What clients of the control socket are given for what they run.
    fn base(&self, request: &Request, opened: &Opened) -> Base {
        Base {
            env: request.env.clone(),
            variables: opened.variables.clone(),
            cwd: request.workspace.cwd.as_bytes().to_vec(),
            roots: self.roots(&request.workspace),
            boundary: self.boundary.name(),
            lacks: self.boundary.lacks(),
            launcher: request.launcher.clone(),
        }
    }

    /// The directories of the host that the sandbox gets.
    fn granted(&self) -> Vec<PathBuf> {
        let grants = self.design.authority.grants();
        grants.map(|grant| grant.root.host.as_path().to_owned()).collect()
    }

    /// Starts to bring the repositories in step with the host's.
    ///
    /// # Errors
    /// A thread that cannot be started.
    fn bring_in_step(&self) -> io::Result<Option<Sync>> {
        let guard = &self.design.guard;
        match guard.host_git() {
            Some(git) => Sync::start(Arc::new(guard.repositories()), git),
            None => Ok(None),
        }
    }

    /// Who serves the host-exec door.
    ///
    /// # Errors
    /// A descriptor that cannot be had.
    fn broker(
        &self,
        (listener, path_map): (OwnedFd, PathMap),
        request: &Request,
        audit: &Arc<Audit>,
        passage: Option<&Arc<Passage>>,
    ) -> Result<Broker, RunError> {
        let Request { settings, workspace, places, .. } = request;
        let git = workspace.git_directory();
        let context = Context {
            settings: settings.clone(),
            path_map,
            approvals: Arc::default(),
            audit: Arc::clone(audit),
            places: places.clone(),
            launcher: request.launcher.clone(),
            repository: if git.exists() { git } else { workspace.root.as_path().to_owned() },
            known: self.design.guard.known(places),
            place: self.state.private().join("host-exec"),
            question: passage.map(|passage| Arc::new(Question::new(Arc::clone(passage)))),
            so_far: SoFar::default(),
        };
        Broker::new(listener, context).map_err(RunError::System)
    }

    /// Returns the directories whose missing files tools report as missing: the workspace, the grants and the
    /// session's private directories. A missing path elsewhere may exist on the host, and escapes.
    fn roots(&self, workspace: &Workspace) -> Vec<Vec<u8>> {
        let granted = self.design.authority.grants().map(|grant| grant.root.inside.as_path());
        // An empty workspace and the private directories are no grants.
        let private = userland::PRIVATE.iter().map(Path::new);
        let all = granted.chain([workspace.root.as_path()]).chain(private);
        all.map(|path| path.as_os_str().as_bytes().to_vec()).collect()
    }

    /// Checks what ran inside and what it left, however it ended.
    ///
    /// # Errors
    /// Why the command was not run, or a log that cannot be written.
    fn conclude(
        self,
        ended: Result<Outcome, RunError>,
        request: &Request,
        records: &Records,
        audit: &Audit,
        (synced, fell): (Synced, Fell),
    ) -> Result<Outcome, RunError> {
        let mut notes = records.rest();
        notes.extend(fell.notes.into_iter().map(Note::warning));
        let guard = &self.design.guard;
        let patience = Patience::at_end();
        let synced = (synced, &fell.saved);
        let settled = guard.settle(&request.settings, &request.places, synced, &patience);
        notes.extend(record_settled(&settled, audit).map_err(RunError::System)?);
        if settled.is_cut {
            let what = "not everything that the session changed was looked at: the next `pinfold run` \
                        finishes it; run no git and no builds there before that";
            notes.insert(0, Note::warning(what));
        }
        if let Ok(outcome) = &ended {
            let limit = outcome.limit.map(crate::LimitReached::name);
            let event = Event::End { status: outcome.status, limit };
            audit.record(&event).map_err(RunError::System)?;
        }
        let Self { state, design: Design { layer, guard, .. }, .. } = self;
        let session = state.id().clone();
        drop(guard);
        if layer.is_some() {
            let status = ended.as_ref().ok().map(|outcome| outcome.status);
            let settings = &request.settings;
            notes.extend(review::conclude(request.host(), &session, settings, status, audit));
        }
        // A client that waits for the session's end finds its changes applied.
        match settled.is_cut {
            true => state.leave(),
            false => drop(state),
        }
        notes.extend(records.used());
        let mut outcome = ended.inspect_err(|_| notify::notes(&notes, Some(&session)))?;
        outcome.notes.extend(notes);
        outcome.session = Some(session);
        outcome.reached = records.reached();
        outcome.timeline.done("settles and cleans up");
        Ok(outcome)
    }
}

/// From the repository's commands to the end of everything inside.
fn conduct(
    mut supervision: Supervision,
    resume: &Resume<'_>,
    record: impl FnOnce() -> io::Result<()>,
    announced: Option<&SessionId>,
) -> Result<Outcome, RunError> {
    match supervision.resume(resume) {
        Ok(true) => {
            record().map_err(RunError::System)?;
            supervision.start(resume.variables.to_vec())?;
            announced.map_or(Ok(()), idle::announce).map_err(RunError::System)?;
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
