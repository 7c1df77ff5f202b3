//! Printing: lines for people, or one JSON object a line. Many threads may print.

use crate::codes::Code;
use crate::failure::{ERROR, Failure, Result};
use crate::requests;
use crate::terminal::{self, Paint};
use crate::typed_repo;
use object_storage::{Asked, Requests};
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, BufWriter, Stdout, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where a command prints.
pub(crate) struct Out {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    has_color: bool,
    has_error_color: bool,
    stdout: Mutex<BufWriter<Stdout>>,
    bar: Mutex<Option<indicatif::ProgressBar>>,
    /// Of each bucket that the command uses.
    requests: Mutex<Vec<Arc<Requests>>>,
    /// What the command line calls the repository.
    repo: Option<String>,
}

/// A line of JSON.
#[derive(Serialize)]
struct Line<'a, T> {
    message_type: &'static str,
    #[serde(flatten)]
    value: &'a T,
}

/// The last line of JSON of a command that ended well, or partly so.
#[derive(Serialize)]
struct Summary<'a, T> {
    message_type: &'static str,
    code: u8,
    name: &'static str,
    #[serde(flatten)]
    value: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<requests::Report>,
}

#[derive(Serialize)]
struct Note<'a> {
    message: &'a str,
}

/// What a summary without content has.
#[derive(Serialize)]
pub(crate) struct Nothing {}

impl Out {
    pub(crate) fn new(json: bool, quiet: bool) -> Self {
        let has_color = !json && terminal::has_colors(&io::stdout());
        let has_error_color = !json && terminal::has_colors(&io::stderr());
        let stdout = Mutex::new(BufWriter::new(io::stdout()));
        let (bar, requests) = (Mutex::new(None), Mutex::default());
        Self { json, quiet, has_color, has_error_color, stdout, bar, requests, repo: None }
    }

    /// From now on, commands in messages name the repository that was typed.
    pub(crate) fn naming(self, repo: Option<String>) -> Self {
        Self { repo, ..self }
    }

    /// `text`, whose commands name the repository that was typed.
    pub(crate) fn named<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.repo {
            Some(repo) => typed_repo::naming(text, repo).into(),
            None => text.into(),
        }
    }

    /// Shows `bar` below everything that is printed from now on; `None` ends it.
    pub(crate) fn show_bar(&self, bar: Option<indicatif::ProgressBar>) {
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = bar;
    }

    /// Colored on a terminal.
    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        if self.has_color { paint.on(text) } else { text.to_owned() }
    }

    /// One of many things: a line of JSON of this type, or of text.
    pub(crate) fn item<T: Serialize>(
        &self,
        message_type: &'static str,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.json { self.write_json(&Line { message_type, value }) } else { self.print(&text()) }
    }

    /// One of many things, for programs only: people see a table.
    pub(crate) fn record<T: Serialize>(&self, message_type: &'static str, value: &T) -> Result<()> {
        if self.json { self.write_json(&Line { message_type, value }) } else { Ok(()) }
    }

    /// A line for people only.
    pub(crate) fn line(&self, text: &str) -> Result<()> {
        if self.json || self.quiet {
            return Ok(());
        }
        Failure::ignore_broken_pipe(self.print(&self.named(text)))
    }

    /// A line for people that is the result itself: printed even when quiet.
    pub(crate) fn print(&self, text: &str) -> Result<()> {
        if self.json {
            return Ok(());
        }
        let text = format!("{text}\n");
        self.suspended(|| self.stdout().write_all(text.as_bytes())).map_err(Failure::from)
    }

    /// The last line: how it ended and what came of it.
    pub(crate) fn summary<T: Serialize>(&self, code: Code, value: &T) -> Result<Code> {
        if self.json {
            let (number, name) = (code.number(), code.name());
            let requests = self.requests_report();
            let line = Summary { message_type: "summary", code: number, name, value, requests };
            Failure::ignore_broken_pipe(self.write_json(&line))?;
        }
        Ok(code)
    }

    /// The last line of a command whose output are the bytes of files: on the error stream.
    pub(crate) fn summary_beside<T: Serialize>(&self, code: Code, value: &T) -> Result<Code> {
        if self.json {
            let (number, name) = (code.number(), code.name());
            let requests = self.requests_report();
            let summary = Summary { message_type: "summary", code: number, name, value, requests };
            eprintln_quietly(&serde_json::to_string(&summary).map_err(io::Error::from)?);
        }
        Ok(code)
    }

    /// From now on, what is asked of an object storage is part of what is told.
    pub(crate) fn tell_requests_of(&self, requests: &Arc<Requests>) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(requests.clone());
    }

    /// What was asked until now of all of them; `None` when there is none.
    fn asked(&self) -> Option<Asked> {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.iter().map(|requests| requests.until_now()).reduce(requests::sum)
    }

    fn requests_report(&self) -> Option<requests::Report> {
        self.asked().map(requests::Report::from)
    }

    /// What was asked of an object storage, for people, when all is done.
    pub(crate) fn tell_requests(&self) {
        if let Some(asked) = self.asked()
            && !self.quiet
        {
            self.remark(&requests::text(&asked));
        }
    }

    /// Something that a person should know; never part of the result.
    pub(crate) fn note(&self, message: &str) {
        let message = &*self.named(message);
        self.beside("note", &Note { message }, message);
    }

    /// The same for people only: what it says stands in the result, too.
    pub(crate) fn remark(&self, message: &str) {
        if !self.json {
            self.note(message);
        }
    }

    /// Something beside the result: a JSON line, or text on the error stream.
    pub(crate) fn beside<T: Serialize>(&self, message_type: &'static str, value: &T, text: &str) {
        if self.json {
            let _ = self.write_json(&Line { message_type, value }); // told again by the last line
        } else {
            let text = crate::escape::text(text);
            self.suspended(|| eprintln_quietly(&text));
        }
    }

    /// Where a command is, for programs: on the error stream, so that the output stays what it was.
    pub(crate) fn status<T: Serialize>(&self, status: &T) {
        if let Ok(text) = serde_json::to_string(status) {
            eprintln_quietly(&text);
        }
    }

    /// Tells the failure, and the code to end with.
    pub(crate) fn fail(&self, failure: &Failure) -> Code {
        if failure.is_quiet {
            return Code::Complete;
        }
        let written = self.write_json_of(failure).and_then(|()| self.flush());
        // Where programs cannot be told, people are.
        if !self.json || written.is_err() {
            let text = failure.text();
            let text = match text.strip_prefix(ERROR) {
                Some(rest) if self.has_error_color => format!("{}{rest}", Paint::Red.on(ERROR)),
                _ => text,
            };
            self.suspended(|| eprintln_quietly(&text));
        }
        failure.code
    }

    /// Nothing for people; what was printed before comes before what they read.
    fn write_json_of(&self, failure: &Failure) -> Result<()> {
        if self.json { self.write_json(&failure.json()) } else { Ok(()) }
    }

    /// The raw output, for the bytes of files.
    pub(crate) fn stdout(&self) -> MutexGuard<'_, BufWriter<Stdout>> {
        self.stdout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn flush(&self) -> Result<()> {
        Ok(self.stdout().flush()?)
    }

    fn write_json<T: Serialize>(&self, value: &T) -> Result<()> {
        let mut line = serde_json::to_vec(value).map_err(io::Error::from)?;
        line.push(b'\n');
        Ok(self.stdout().write_all(&line)?)
    }

    /// Prints with the progress bar out of the way.
    fn suspended<T>(&self, print: impl FnOnce() -> T) -> T {
        let bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        match &*bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

/// `eprintln` panics when nobody reads; this does not care.
fn eprintln_quietly(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
