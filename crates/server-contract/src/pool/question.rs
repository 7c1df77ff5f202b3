//! A question that may hang, as to a file system or a bucket whose server is gone: one thread asks it, and everybody
//! else waits for the answer, for some seconds at most.

use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// The question, and its last answer.
pub(super) struct Question<T> {
    state: Mutex<State<T>>,
    answered: Condvar,
}

struct State<T> {
    /// Since when a thread waits for an answer.
    waits_since: Option<Instant>,
    last: Option<(Instant, T)>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// It has been asked for this time.
    Silent(Duration),
    /// The system starts no thread that could ask.
    NoThread(io::Error),
}

impl<T> Default for Question<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State { waits_since: None, last: None }),
            answered: Condvar::new(),
        }
    }
}

impl<T: Clone + Send + 'static> Question<T> {
    /// The last answer, and its age.
    pub(super) fn last(&self) -> Option<(Duration, T)> {
        self.state.lock().last.as_ref().map(|(at, answer)| (at.elapsed(), answer.clone()))
    }

    /// The answer of `asking`, or of who asks already.
    ///
    /// # Errors
    /// [`Unanswered`], when nobody has answered `within` the time since it was asked.
    pub(super) fn ask(
        self: &Arc<Self>,
        within: Duration,
        asking: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unanswered> {
        let mut state = self.state.lock();
        let since = match state.waits_since {
            Some(since) => since,
            None => {
                self.begin(asking).map_err(Unanswered::NoThread)?;
                *state.waits_since.insert(Instant::now())
            }
        };
        while state.waits_since == Some(since) {
            if self.answered.wait_until(&mut state, since + within).timed_out() {
                return Err(Unanswered::Silent(since.elapsed()));
            }
        }
        let answer = state.last.as_ref().map(|(_, answer)| answer.clone());
        answer.ok_or(Unanswered::Silent(since.elapsed()))
    }

    fn begin(self: &Arc<Self>, asking: impl FnOnce() -> T + Send + 'static) -> io::Result<()> {
        let question = self.clone();
        let thread = Builder::new().name("question".to_owned()).spawn(move || {
            let answer = asking();
            let mut state = question.state.lock();
            *state = State { waits_since: None, last: Some((Instant::now(), answer)) };
            question.answered.notify_all();
        });
        thread.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn one_thread_waits_for_who_hangs_and_all_are_told() {
        let question = Arc::new(Question::<u32>::default());
        let (answer, answers) = channel();
        let hangs = move || answers.recv().unwrap();
        assert!(
            matches!(question.ask(SHORT, hangs), Err(Unanswered::Silent(time)) if time >= SHORT)
        );
        let never = || unreachable!("somebody asks already");
        assert!(matches!(question.ask(SHORT, never), Err(Unanswered::Silent(_))));
        assert!(question.last().is_none());
        // Who comes while it is asked waits for the same answer; who comes later asks himself.
        std::thread::scope(|scope| {
            let second = scope.spawn(|| question.ask(LONG, || 7));
            answer.send(7).unwrap();
            assert_eq!(second.join().unwrap().unwrap(), 7);
        });
        assert_eq!(question.last().unwrap().1, 7);
        assert_eq!(question.ask(LONG, || 8).unwrap(), 8, "a later question is one of its own");
    }
}
