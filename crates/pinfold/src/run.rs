//! `pinfold run`.

use std::ffi::OsString;
use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::process::ExitCode;

use pinfold_host::directories::Places;
use pinfold_host::session_id::SessionName;
use pinfold_policy::authority::Subject;
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::settings::{ApplyMode, Settings};
use pinfold_provision::Event;
use pinfold_rootfs::userland;
use pinfold_session::agent::{self, AgentRun, ProgramSource};
use pinfold_session::caller_trust::CallerTrust;
use pinfold_session::detach::{self, Background, Front, Side, Started};
use pinfold_session::group::{Group, Missing};
use pinfold_session::identity::{self, Identity};
use pinfold_session::node_tools::NodeTools;
use pinfold_session::search_path::{SearchPath, Shown, VIRTUAL_ENV};
use pinfold_session::ssh::Ssh;
use pinfold_session::toolchains::Toolchains;
use pinfold_session::{Outcome, Request, Timeline, Who, Window, container_tools};
use pinfold_terminal::notify;
use pinfold_workspace::workspace::Workspace;

use crate::cli::RunArgs;
use crate::environment::{Caller, environment};
use crate::exit::Failure;
use crate::{image, network, policy, review, snapshot};

/// Runs an agent or a command; `learn` lets it reach every public host and says which it did.
///
/// # Errors
/// Whatever kept it from being run.
pub(crate) fn run(mut args: RunArgs, learn: bool) -> Result<ExitCode, Failure> {
    let mut timeline = Timeline::default();
    timeline.done("starts");
    if userland::is_inside() {
        let hint =
            "start it on the host; `pinfold exec` there runs another command in this sandbox";
        return Err(Failure::own("pinfold cannot start a sandbox inside its own sandbox")
            .hint(Some(hint.to_owned())));
    }
    let places = Places::find().map_err(Failure::places)?;
    // Of this process's terminal, which the other one does not have.
    let window = args.tty.then(detach::window);
    let background = match args.detach {
        true => match detach::detach(&places).map_err(Failure::own)? {
            Side::Front(front) => return wait(front),
            Side::Background(background) => Some(background),
        },
        false => None,
    };
    args.policy.is_alone = args.detach && args.agent.is_some();
    let workspace = policy::workspace(&places)?;
    let mut settings = policy::settings(&args.policy, args.agent.as_deref(), &places, &workspace)?;
    if args.agent_image {
        let base = image::base_of(&settings, &places)?;
        let origin = Origin::Flag { name: "--agent-image" };
        settings.snapshot.base = Some(Valued::new(base, origin));
    }
    say_what_waits(&settings);
    if learn {
        settings.allow_every_name("pinfold learn").map_err(Failure::own)?;
        notify!("pinfold: learning: every public host can be reached in this run");
    }
    let dedicated = policy::dedicated(&args.policy, &workspace, &settings, &places)?;
    for note in dedicated.iter().flat_map(|dedicated| &dedicated.notes) {
        notify!("pinfold: note: {note}");
    }
    let RunArgs { agent, rest, idle, policy, timings, name, agent_image, .. } = args;
    // Without a terminal to attach to, nobody could answer.
    let unattended = policy.unattended || policy.is_alone && window.is_none();
    let wanted = Wanted { agent, rest, idle, unattended, name, background, window, agent_image };
    let asks = settings.apply.value == ApplyMode::Ask;
    let outcome = session(wanted, settings, workspace, places, timeline);
    if let Ok(outcome) = &outcome {
        report(outcome, timings);
    }
    if let Some(dedicated) = dedicated {
        match dedicated.end() {
            Ok(told) => told.iter().for_each(|told| notify!("pinfold: {told}")),
            Err(error) => notify!("pinfold: the worktree stays: {error}"),
        }
    }
    let outcome = outcome?;
    if asks {
        ask_to_apply()?;
    }
    if learn {
        network::propose(&outcome.reached);
    }
    if outcome.interrupted && std::io::stdin().is_terminal() {
        // The shell treats a job that an interrupt ended differently from one that returns.
        pinfold_host::sys::die_of_interrupt();
    }
    Ok(ExitCode::from(outcome.status))
}

/// Asks whether what the session changed in a view is to be applied, if somebody can answer and
/// there is anything.
///
/// # Errors
/// As `pinfold apply`.
fn ask_to_apply() -> Result<(), Failure> {
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !is_terminal || review::choose(&[]).is_err() {
        return Ok(());
    }
    notify::put(format_args!("pinfold: apply these changes? [y/N] "));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::own)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        review::apply(&review::ApplyArgs::default())?;
    }
    Ok(())
}

/// Says which session runs, or shows why none does.
fn wait(front: Front) -> Result<ExitCode, Failure> {
    match front.wait(&mut std::io::stderr()).map_err(Failure::own)? {
        Started::Session(session) => {
            let told = writeln!(std::io::stdout(), "{session}");
            told.map_err(|error| Failure::own(format!("the session {session} runs: {error}")))?;
            Ok(ExitCode::SUCCESS)
        }
        Started::Failed(status) => Ok(ExitCode::from(status)),
    }
}

/// From the settings to the end of everything inside.
fn session(
    wanted: Wanted,
    settings: Settings,
    project: Workspace,
    places: Places,
    timeline: Timeline,
) -> Result<Outcome, Failure> {
    if wanted.rest.is_empty() && settings.agent.is_none() && !wanted.idle {
        return Err(Failure::own("nothing to run")
            .hint(Some("say `pinfold run AGENT` or `pinfold run -- COMMAND`".to_owned())));
    }
    Ok(pinfold_session::run(request(wanted, settings, project, places, timeline)?)?)
}

/// What the command line says of what to run.
#[derive(Default)]
pub(crate) struct Wanted {
    /// The agent, if it names one.
    pub(crate) agent: Option<String>,
    /// The agent's arguments, or the command with its own.
    pub(crate) rest: Vec<OsString>,
    /// Whether nothing is to be run.
    pub(crate) idle: bool,
    /// Whether nobody watches.
    pub(crate) unattended: bool,
    /// What the session is called.
    pub(crate) name: Option<SessionName>,
    /// Where it goes on by itself.
    pub(crate) background: Option<Background>,
    /// How large a terminal it has there, if it has one.
    pub(crate) window: Option<Window>,
    /// Whether the agent's program is the one of the image that the run begins with.
    pub(crate) agent_image: bool,
}

/// Everything that a run needs to know.
///
/// # Errors
/// An agent, a system, a toolchain or an identity that is not to be had.
pub(crate) fn request(
    wanted: Wanted,
    settings: Settings,
    project: Workspace,
    places: Places,
    mut timeline: Timeline,
) -> Result<Request, Failure> {
    let workspace = policy::in_mode(project.clone(), &settings, &places)?;
    let stack = snapshot::stack(&settings, &places, &project)?;
    let (name, mut run) = match settings.agent.as_ref() {
        Some(agent) if wanted.agent.is_some() || wanted.rest.is_empty() && !wanted.idle => {
            let name = agent.value.clone();
            let resolved = agent::resolve(&name, &settings, &places)?;
            let context = (&settings, &places, &workspace, stack.as_ref());
            let source = match wanted.agent_image {
                true => ProgramSource::System,
                false => ProgramSource::Layer(&progress),
            };
            let (rest, unattended) = (wanted.rest, wanted.unattended);
            if unattended {
                say_that_nobody_is_asked(&name, &resolved.0.profile.unattended_flags);
            }
            (name, agent::prepare(resolved, rest, unattended, context, source)?)
        }
        _ => {
            let name = wanted.rest.first().map(|word| word.to_string_lossy().into_owned());
            let run = AgentRun {
                argv: wanted.rest,
                env: Vec::new(),
                path: None,
                extra: Vec::new(),
                files: Vec::new(),
                my_config: None,
                provider: None,
                nested: false,
                silent_hosts: Vec::new(),
            };
            (name.unwrap_or_else(|| "idle".to_owned()), run)
        }
    };
    let active = std::env::var_os(VIRTUAL_ENV);
    let toolchains = Toolchains::find(
        &places.home,
        workspace.root.as_path(),
        stack.as_ref(),
        active.as_deref().map(Path::new),
    );
    let toolchains = toolchains.map_err(Failure::own)?;
    let shown = Shown::of(&settings, &workspace, &toolchains.extra, stack.as_ref());
    let container_tools = container_tools::entries(stack.as_ref()).map_err(Failure::own)?;
    let explaining = (!container_tools.is_empty()).then(|| container_tools::DIRECTORY.to_owned());
    let node_tools = NodeTools::find(stack.as_ref()).map_err(Failure::own)?;
    let mut search = SearchPath::find(std::env::var_os("PATH").as_deref(), &shown, toolchains.path);
    search.before.extend(node_tools.path);
    let caller = Caller {
        first: explaining.into_iter().chain(run.path).collect(),
        search,
        virtual_environment: shown.virtual_environment(active.as_deref()),
        trust: CallerTrust::find(),
    };
    timeline.done("reads settings, agent and toolchains");
    let group = Group::find(&settings, &workspace, &places, Missing::Make, &mut run.extra)?;
    for note in &group.notes {
        notify!("pinfold: note: {note}");
    }
    let identity = Identity::find(&settings, &project)?;
    let person = identity::of_the_person(&settings, &project, &places);
    let ssh = Ssh::find(&settings, identity.as_ref(), &places)?;
    let (identity_env, identity_files) =
        identity.map(|identity| (identity.env, identity.files)).unwrap_or_default();
    let env = run.env.into_iter().chain(person).chain(identity_env).chain(group.env).collect();
    let mut env = environment(&settings, &workspace, env, &caller, (ssh.is_some(), stack.as_ref()));
    if wanted.window.is_some() && !env.iter().any(|(name, _)| name == "TERM") {
        // Started where there was no terminal; whoever attaches has one like this, or close to it.
        env.push(("TERM".into(), "xterm-256color".into()));
    }
    Ok(Request {
        subject: Subject::AgentSession { agent: name.into() },
        env,
        argv: run.argv,
        settings,
        workspace,
        stack,
        extra: run.extra.into_iter().chain(toolchains.extra).chain(group.extra).collect(),
        files: run
            .files
            .into_iter()
            .chain(identity_files)
            .chain(group.files)
            .chain(container_tools)
            .chain(node_tools.entries)
            .collect(),
        my_config: run.my_config,
        provider: run.provider,
        ssh,
        nested: run.nested,
        silent_hosts: run.silent_hosts,
        bound: None,
        attended: !wanted.unattended && wanted.background.is_none(),
        caller_trust: caller.trust,
        places,
        name: wanted.name,
        background: wanted.background,
        window: wanted.window,
        timeline,
    })
}

/// Says that the repository asks for more than it gets.
fn say_what_waits(settings: &Settings) {
    let mut waiting = settings.waiting();
    if let Some(first) = waiting.next() {
        let more = match waiting.count() {
            0 => String::new(),
            more => format!(" ({more} more)"),
        };
        notify!("pinfold: note: waits for `pinfold trust`: {first}{more}");
    }
    let skipped = settings.waiting().filter(|waits| waits.key == "resumeCommands");
    for command in skipped {
        notify!("pinfold: note: skipped at this start until you trust it: {}", command.asks);
    }
}

/// Says that an agent does not ask for permissions, and by which of its options.
fn say_that_nobody_is_asked(agent: &str, flags: &[String]) {
    if !flags.is_empty() {
        let flags = flags.join(" ");
        notify!(
            "pinfold: note: {agent} asks for no permissions in this run ({flags}); the sandbox bounds it"
        );
    }
}

/// One line on standard error that is written over, or a few lines when it is no terminal.
fn progress(event: Event) {
    let words = match event {
        Event::Waiting => "another start is preparing this agent; waiting".to_owned(),
        Event::Fetching { done, packages, bytes } => {
            let of = bytes.map_or(String::new(), |bytes| format!(" of {} MB", bytes >> 20));
            format!(
                "downloading packages: {} of {packages}, {} MB{of}",
                done.packages,
                done.bytes >> 20
            )
        }
        Event::Verifying => "verifying packages".to_owned(),
        Event::Unpacking => "unpacking inside a boundary without network".to_owned(),
        Event::Sealing => "sealing".to_owned(),
    };
    if std::io::stderr().is_terminal() {
        notify::put(format_args!("\r\x1b[Kpinfold: {words}"));
        if event == Event::Sealing {
            notify::put(format_args!("\r\x1b[K"));
        }
    } else if !matches!(event, Event::Fetching { done, .. } if done.packages > 0) {
        notify!("pinfold: {words}");
    }
}

fn report(outcome: &Outcome, timings: bool) {
    if let Some(limit) = outcome.limit {
        let what = if limit.ended_the_run() { "ended the run" } else { "was reached" };
        notify!("pinfold: the {} limit {what}", limit.name());
    }
    notify::notes(&outcome.notes);
    if timings {
        show(&outcome.timeline);
    }
}

/// Each step with when it ended and how long it took its own process.
fn show(timeline: &Timeline) {
    let marks = timeline.marks();
    let first = marks.first().map_or(0, |mark| mark.at);
    let mut last = [first; 2];
    for mark in marks {
        let (own, who) = match mark.who {
            Who::Supervisor => (&mut last[0], "pinfold"),
            Who::Init => (&mut last[1], "init   "),
        };
        let took = mark.at.saturating_sub(*own) as f64 / 1e6;
        *own = mark.at;
        notify!("{:>8.3} ms {took:>+8.3}  {who}  {}", (mark.at - first) as f64 / 1e6, mark.what);
    }
}
