//! One run, from the settings to the exit status.

mod dead;
mod design;
mod live;
mod nested;
mod plan;
mod record;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pinfold_boundary::namespace::explain;
use pinfold_boundary::{Boundary, Entry, Feature, Inside, Program, Session as OfSession};
use pinfold_engines::managed;
use pinfold_host::audit::{Audit, Event, Purpose};
use pinfold_host::directories::Places;
use pinfold_host::session_id::{SessionId, SessionName};
use pinfold_host::sessions::SessionState;
use pinfold_host::wrappers::{self, Launch};
use pinfold_host::{launcher, sys};
use pinfold_policy::authority::Subject;
use pinfold_policy::network::HostPattern;
use pinfold_policy::path::{Escaped, HostPath, InsidePath};
use pinfold_policy::settings::Settings;
use pinfold_protect::masks::{Fell, Kept, Masks};
use pinfold_protect::patience::Patience;
use pinfold_rootfs::system::Stack;
use pinfold_rootfs::userland;
use pinfold_terminal::caller::CallerTerminal;
use pinfold_terminal::prompt_overlay::Passage;
use pinfold_terminal::{notify, stdio};
use pinfold_wire::Window;
use pinfold_workspace::git::sync::{Sync, Synced};
use pinfold_workspace::hide;
use pinfold_workspace::refresh::Refresh;
use pinfold_workspace::review::{self, Layer, Review};
use pinfold_workspace::workspace::Workspace;

use crate::broker::{self, Broker, Ground, Question};
use crate::caller_trust::CallerTrust;
use crate::control::{Base, Control, Rules};
use crate::detach::{self, Background};
use crate::door::{self, LivesOn, Records};
use crate::filling::{Bound, Filling};
use crate::gateway::Provider;
use crate::my_config::MyConfig;
use crate::outcome::{Outcome, RunError};
use crate::resume::Resume;
use crate::serving::Serving;
use crate::ssh::Ssh;
use crate::supervise::{HASTE, Progress, Supervision};
use crate::timeline::Timeline;
use crate::view::Extra;
use crate::{idle, wall};

use dead::{settle_before, wait_for_settlers};
use design::Design;
use live::{Furnished, Live, keep, refresh};
use record::{record_session, record_settled, say_what_is_hidden, say_what_is_less};

/// What to run, and how.
pub struct Request {
    /// Whose session it is.
    pub subject: Subject,
    /// The program and its arguments; none for a session that waits for what is run in it.
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
    /// What of the user's own setup of the agent comes in.
    pub my_config: Option<MyConfig>,
    /// The system it runs on; this machine's own if there is none.
    pub stack: Option<Stack>,
    /// The agent's model provider.
    pub provider: Option<Provider>,
    /// The key that signs for the inside.
    pub ssh: Option<Ssh>,
    /// Whether the agent needs namespaces of its own.
    pub nested: bool,
    /// Hosts of which a refusal is recorded and not shown.
    pub silent_hosts: Vec<HostPattern>,
    /// What it may write to the disk, where that is watched.
    pub bound: Option<Bound>,
    /// Whether somebody is at the terminal who can be asked.
    pub attended: bool,
    /// Authorities that the caller trusts besides the system's.
    pub caller_trust: CallerTrust,
    /// Where pinfold keeps its files.
    pub places: Places,
    /// What the session is called, beside its own name.
    pub name: Option<SessionName>,
    /// Where it goes on without whoever started it.
    pub background: Option<Background>,
    /// How large the terminal is that it has there, if it has one.
    pub window: Option<Window>,
    /// What was done before.
    pub timeline: Timeline,
}

impl Request {
    fn lives_on(&self) -> LivesOn {
        LivesOn(self.background.is_some() || self.argv.is_empty())
    }
}

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
    let mut terminal = match is_idle {
        true => None,
        false => CallerTerminal::find().map_err(RunError::terminal)?,
    };
    if let Some(terminal) = &mut terminal {
        terminal.guard().map_err(RunError::terminal)?;
    }
    let streams = match (is_idle, request.window) {
        (true, _) => stdio::nothing(),
        (false, Some(window)) => Ok(stdio::terminal(window, None)),
        (false, None) => stdio::streams(terminal.as_ref()),
    };
    let mut streams = streams.map_err(|errno| RunError::System(errno.into()))?;
    if request.background.is_some() {
        streams.moved.bound(detach::LONGEST);
    }
    let signals = sys::signal_events().map_err(|errno| RunError::System(errno.into()))?;
    let wants_terminal = streams.wants_terminal();
    let (mut session, mut inside) = Session::begin(&mut request, &mut timeline, wants_terminal)?;
    wrappers::act_for(&session.design.authority);
    // While init builds the root.
    let masks = Masks::start()?;
    let launch = Launch {
        argv: request.argv.clone(),
        env: request.env.clone(),
        cwd: request.workspace.cwd.as_path().to_owned(),
        handled_by: Vec::new(),
    };
    let launch = if is_idle { launch } else { wrappers::wrapped(session.boundary.name(), launch)? };
    let program = Program {
        argv: launch.argv.clone(),
        env: launch.env.clone(),
        cwd: InsidePath::new(&launch.cwd).map_err(RunError::path)?,
        ignored: sys::ignored_signals(),
    };
    inside.command(&program, streams.stdio).map_err(explain)?;

    let granted = session.granted();
    let settle =
        |dead: &SessionId, private: &Path| settle_before(dead, private, &request, &granted);
    let written = wall::written(&request.settings, request.workspace.root.as_path());
    let sweep = |boundary: &str, dead: &str| managed::sweep(boundary, dead, &written);
    session.state.clean_dead(&sweep, &settle).map_err(RunError::System)?;
    while wait_for_settlers(&request.places, &granted).map_err(RunError::System)? {
        // The other start may have been ended.
        session.state.clean_dead(&sweep, &settle).map_err(RunError::System)?;
    }
    if let Some(name) = &request.name {
        let named = session.state.set_name(&request.places, name);
        named.map_err(|error| RunError::refused(error, None))?;
    }
    Review::go_on_with_all(&request.places);
    let id = Some(session.state.id().clone());
    let audit = Arc::new(Audit::open(&request.places.state, id).map_err(RunError::System)?);
    launcher::record_in(&audit);
    let tells_at_once = terminal.is_none() && request.window.is_none();
    let silent = std::mem::take(&mut request.silent_hosts);
    let records = Arc::new(Records::new(Arc::clone(&audit), tells_at_once, silent));
    let Furnished { opened, asked, live, view } =
        session.furnish(&mut request, &mut inside, &records, &audit)?;
    let over = request.workspace.under_view(&request.settings).map(HostPath::as_path);
    let hidden = live.hidden();
    let masks = keep(masks, live, &mut inside, over).map_err(RunError::thread)?;
    let passage = (asked.is_some() && terminal.is_some()).then(Arc::<Passage>::default);
    let asked_here = passage.as_ref().filter(|_| request.attended);
    let broker = asked.map(|asked| session.broker(asked, &request, &audit, asked_here));
    let broker = broker.transpose()?;
    timeline.done("looks the workspace over");

    let settings = &request.settings;
    let by_proxy = opened.by_proxy;
    let rules = opened.policy.map(|policy| {
        let (ceiling, audit) = (settings.ceiling.clone(), Arc::clone(&audit));
        Rules { policy, ceiling, audit, by_proxy }
    });
    let base = Base {
        env: request.env.clone(),
        variables: opened.variables.clone(),
        cwd: request.workspace.cwd.as_bytes().to_vec(),
        roots: session.roots(&request.workspace),
        boundary: session.boundary.name(),
        lacks: session.boundary.lacks(),
    };
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
        boundary: session.boundary.name(),
    };
    let start = || match is_idle {
        true => Ok(()),
        false => launcher::record_launch(&audit, Purpose::Command, &launch),
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
            wall::insist(boundary.as_ref(), feature)?;
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

    /// Looks the workspace over while init builds the root, opens the doors, and lets init close
    /// the inside once all of that is recorded.
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
        let mut opened = door::open(doors, provider, settings, places, records, with)?;
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
        let asked = host_exec.map(|listener| (listener, Ground::new(authority, over.cloned())));
        Ok(Furnished { opened, asked, live: Live { masks, mounts }, view })
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
        (listener, ground): (OwnedFd, Ground),
        request: &Request,
        audit: &Arc<Audit>,
        passage: Option<&Arc<Passage>>,
    ) -> Result<Broker, RunError> {
        let Request { settings, workspace, places, .. } = request;
        let git = workspace.git_directory();
        let setting = broker::Setting {
            settings: settings.clone(),
            ground,
            approvals: Arc::default(),
            audit: Arc::clone(audit),
            places: places.clone(),
            repository: if git.exists() { git } else { workspace.root.as_path().to_owned() },
            known: self.design.guard.known(places),
            place: self.state.private().join("host-exec"),
            question: passage.map(|passage| Arc::new(Question::new(Arc::clone(passage)))),
            so_far: broker::SoFar::default(),
        };
        Broker::new(listener, setting)
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

    /// Looks over what has run inside and what it left, whatever became of it.
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
        notes.extend(fell.notes);
        let guard = &self.design.guard;
        let patience = Patience::at_end();
        let synced = (synced, &fell.saved);
        let settled = guard.settle(&request.settings, &request.places, synced, &patience);
        notes.extend(record_settled(&settled, audit).map_err(RunError::System)?);
        if settled.is_cut {
            let what = "not everything that the session changed was looked at: the next `pinfold run` \
                        finishes it; run no git and no builds there before that";
            // Only so many are shown.
            notes.insert(0, what.to_owned());
        }
        if let Ok(outcome) = &ended {
            let limit = outcome.limit.map(crate::LimitReached::name);
            let event = Event::End { status: outcome.status, limit };
            audit.record(&event).map_err(RunError::System)?;
        }
        let Self { state, design: Design { layer, guard, .. }, .. } = self;
        let session = state.id().clone();
        drop(guard);
        match settled.is_cut {
            true => state.leave(),
            false => drop(state),
        }
        if layer.is_some() {
            let status = ended.as_ref().ok().map(|outcome| outcome.status);
            let settings = &request.settings;
            notes.extend(review::conclude(&request.places, &session, settings, status, audit));
        }
        let mut outcome = ended.inspect_err(|_| {
            pinfold_terminal::notify::notes(&notes);
        })?;
        outcome.notes.extend(notes);
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
