//! The agent: stays connected to the server and starts jobs when the server requests them. It listens nowhere, and
//! runs nothing but this program, with arguments that it puts together itself.

use super::done::Done;
use super::node_commands::{self, Outcome};
use crate::alone;
use crate::codes::Code;
use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Result};
use crate::node::Node;
use crate::node::policy::Received;
use crate::node::renewal::Renewal;
use api::commands::NodeCommand;
use remote::{Purpose, Remote};
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// Held by the agent, in its directory.
const LOCK: &str = "agent.lock";
/// How long it waits for a command before it looks after itself: certificate, signals.
const LOOK_AFTER: Duration = Duration::from_secs(5);
/// How often it asks which options the server sets.
const ASK_AFTER: Duration = Duration::from_secs(5 * 60);
/// First and longest pause before the server is called again.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Waits for commands until it is told to stop.
pub(super) fn run(context: &Context) -> Result<Code> {
    context.enrolled()?;
    let _alone = hold(&context.agent_folder())?;
    if let Some(warning) = super::recovery::warning(&context.agent_folder())? {
        context.out.note(&warning);
    }
    context.listen_for_signals();
    let (mut done, mut pause) = (Done::default(), PAUSE_FIRST);
    while !context.is_cancelled() {
        match connected(context, &mut done) {
            Ok(()) => pause = PAUSE_FIRST,
            // Whatever it was at: it was asked to stop.
            Err(_) if context.is_cancelled() => {}
            Err(failure) => {
                context.out.note(&failure.line());
                rest(context, pause);
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
    Ok(Code::Complete)
}

/// A second agent of this machine would take each command once more.
fn hold(folder: &Path) -> Result<File> {
    alone::hold(&folder.join(LOCK), || {
        let message = format!("another agent uses {}", folder.display());
        Failure::new(Code::InUse, message)
            .hint("It does what the server asks for: systemctl status icecore-agent")
    })
}

/// One connection, as long as it lasts.
fn connected(context: &Context, done: &mut Done) -> Result<()> {
    // Read again: this machine may have enrolled again.
    let node = context.enrolled()?;
    done.come_to(&node.identity);
    let target = node.endpoint(&context.caller(), Purpose::Agent)?;
    let failed = |error| context.failure(pipeline::Error::Repository(error));
    let connection = Remote::connect_control(&target, Purpose::Agent).map_err(failed)?;
    context.out.line(&format!("connected to {}", target.describe()))?;
    context.out.flush()?;
    let mut renewal = Renewal::new(&node.folder);
    let mut asked = None;
    while !context.is_cancelled() {
        renewal.look(&context.out);
        if asked.is_none_or(|at: Instant| at.elapsed() >= ASK_AFTER) {
            ask_for_options(context, &node);
            asked = Some(Instant::now());
        }
        let Some((number, json)) = connection.next_command(LOOK_AFTER).map_err(failed)? else {
            continue;
        };
        let Outcome { is_complete, text } = match done.outcome(number, &json) {
            // The server asks again what it was not told: the connection may have been lost meanwhile.
            Some(known) => known,
            None => {
                let outcome = carry_out(context, &json);
                context.out.line(&told(number, &outcome))?;
                context.out.flush()?;
                done.note(number, &json, outcome.clone());
                outcome
            }
        };
        connection.command_done(number, is_complete, &text).map_err(failed)?;
    }
    Ok(())
}

/// How a command ended, in one line of the journal. It may name what the server wrote into the command.
fn told(number: u64, outcome: &Outcome) -> String {
    format!("command {number}: {}", escape::text(&outcome.text))
}

fn carry_out(context: &Context, json: &[u8]) -> Outcome {
    match serde_json::from_slice::<NodeCommand>(json) {
        Ok(command) => node_commands::obey(context, &command),
        Err(error) => Outcome::refused(format!("invalid command: {error}")),
    }
}

/// A backup asks by itself; this is for what `icecore options` shows, and for the administrator to see what this node
/// ignores.
fn ask_for_options(context: &Context, node: &Node) {
    if let Err(failure) = Received::exchange(node, crate::commands::backup::takes) {
        context.out.note(&format!("cannot ask the server for options: {}", failure.message));
    }
}

fn rest(context: &Context, pause: Duration) {
    let end = std::time::Instant::now() + pause;
    while std::time::Instant::now() < end && !context.is_cancelled() {
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: an unknown field of a command, with what clears the screen and a line of its own.
    #[test]
    fn no_command_writes_lines_or_escapes_of_its_own() {
        let json = br#"{"\u001b[2J\ncommand 1: done": 1}"#;
        let error = serde_json::from_slice::<NodeCommand>(json).unwrap_err();
        let unknown =
            Outcome::refused(format!("unknown field `\u{1b}[2J\ncommand 1: done`: {error}"));
        let told = told(7, &unknown);
        assert!(told.starts_with("command 7: ") && told.contains("[2J"), "{told}");
        assert!(!told.contains(char::is_control), "{told:?}");
    }
}
