//! `pinfold-memory`: the program inside that uses a diary on the host.
//!
//! It is this executable by another name, mounted inside where the settings grant a diary. Without arguments it speaks the
//! Model Context Protocol on its standard streams; with the name of a tool it calls that one.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | the tool gave a result |
//! | 1 | the tool failed or refused |
//! | 2 | the command line cannot be understood |
//! | 125 | the host cannot be asked |

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::ExitCode;

use pinfold_mcp::{PROGRAM, pump};
use pinfold_terminal::notify;
use serde_json::{Value, json};

use crate::print;

const UNREACHABLE: u8 = 125;
const USAGE: u8 = 2;

const HELP: &str = "\
Use a diary that is kept outside of this sandbox

Usage: pinfold-memory                      speak the Model Context Protocol on standard streams
       pinfold-memory TOOL [ARGUMENTS|-]   call a tool with a JSON object, or with one from standard input
       pinfold-memory tools                list the tools with their parameters, as JSON
";

/// Returns whether this program was called inside by this name.
pub(crate) fn is_called() -> bool {
    // The kernel names the file that is mounted there, whatever link led to it (proc_pid_exe(5)).
    std::fs::read_link("/proc/self/exe").is_ok_and(|exe| exe == Path::new(PROGRAM))
}

/// Does what the arguments say.
pub(crate) fn run() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let words: Option<Vec<&str>> = args.iter().map(|word| word.to_str()).collect();
    let asked = match words.as_deref() {
        Some([]) => return serve(),
        Some(["--help" | "-h"]) => {
            print::put(format_args!("{HELP}"));
            return ExitCode::SUCCESS;
        }
        Some(["tools"]) => ask("tools/list", &json!({})),
        Some([tool, rest @ ..]) if rest.len() < 2 && !tool.starts_with('-') => {
            let arguments = match rest {
                ["-"] => read(),
                [arguments] => Ok((*arguments).to_owned()),
                _ => Ok("{}".to_owned()),
            };
            let arguments = arguments.and_then(|text| Ok(serde_json::from_str::<Value>(&text)?));
            match arguments {
                Ok(arguments) => {
                    ask("tools/call", &json!({ "name": tool, "arguments": arguments }))
                }
                Err(error) => {
                    notify!("pinfold-memory: the arguments are no JSON: {error}");
                    return ExitCode::from(USAGE);
                }
            }
        }
        _ => {
            notify::put(format_args!("{HELP}"));
            return ExitCode::from(USAGE);
        }
    };
    asked.map_or_else(unreachable, |answer| show(&answer))
}

fn serve() -> ExitCode {
    match pump(io::stdin(), &mut io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        // The client has gone.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => unreachable(error),
    }
}

fn unreachable(error: io::Error) -> ExitCode {
    notify!("pinfold-memory: the host cannot be asked: {error}");
    ExitCode::from(UNREACHABLE)
}

fn read() -> io::Result<String> {
    // More than any entry has.
    const LONGEST: u64 = 1 << 20;
    let mut text = String::new();
    io::stdin().take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// Asks one thing, and returns the answer.
fn ask(method: &str, params: &Value) -> io::Result<Value> {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    pinfold_mcp::ask(&message)
}

fn show(answer: &Value) -> ExitCode {
    let result = &answer["result"];
    if let Some(tools) = result.get("tools") {
        print::put(format_args!("{}\n", print::plain(&format!("{tools:#}"))));
        return ExitCode::SUCCESS;
    }
    let content = result["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = content.filter_map(|part| part["text"].as_str()).collect();
    if answer["error"].is_object() || result["isError"] == true {
        let fault = answer["error"]["message"].as_str().map(str::to_owned);
        notify!("pinfold-memory: {}", fault.unwrap_or_else(|| texts.join("\n")));
        return ExitCode::FAILURE;
    }
    print::put(format_args!("{}\n", texts.join("\n")));
    ExitCode::SUCCESS
}
