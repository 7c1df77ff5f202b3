//! What another process prints, line by line. It may print more than memory holds, as a backup does of a file system
//! that does not answer: one line for each object. So no more is read than whoever asks has seen.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};

/// Longest line. The summary of a backup with all paths that it names is shorter.
const LINE_BYTES_MAX: usize = 4 << 20;

/// The lines of `input`, one at a time.
pub(crate) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    pub(crate) fn of(input: R) -> Self {
        Self { input: BufReader::new(input), line: Vec::new() }
    }

    /// The next line; of one that is too long nothing. `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let longest = LINE_BYTES_MAX as u64;
        if self.input.by_ref().take(longest).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        if self.line.len() == LINE_BYTES_MAX && !self.line.ends_with(b"\n") {
            self.input.skip_until(b'\n')?;
            self.line.clear();
        }
        Ok(Some(self.line.trim_ascii()))
    }
}

/// Runs `command` to its end, and `read` on what it prints meanwhile.
pub(crate) fn run<T>(
    mut command: Command,
    read: impl FnOnce(ChildStdout) -> io::Result<T>,
) -> io::Result<(ExitStatus, T)> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
    let said = read(output);
    Ok((child.wait()?, said?))
}

/// The last line of `input` that is not empty.
pub(crate) fn last(input: impl Read) -> io::Result<Vec<u8>> {
    let (mut lines, mut last) = (Lines::of(input), Vec::new());
    while let Some(line) = lines.next()? {
        if !line.is_empty() {
            line.clone_into(&mut last);
        }
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Prints `line` again and again, and counts the bytes.
    struct Printer {
        line: Vec<u8>,
        times: u64,
        printed: Rc<Cell<u64>>,
    }

    impl Read for Printer {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let printed = self.printed.get();
            let at = (printed % self.line.len() as u64) as usize;
            if printed == self.times * self.line.len() as u64 {
                return Ok(0);
            }
            let count = (&self.line[at..]).read(buffer)?;
            self.printed.set(printed + count as u64);
            Ok(count)
        }
    }

    #[test]
    fn no_more_is_read_than_was_seen() {
        let (line, times, printed) = (b"{\"path\":\"/dead/x\"}\n".to_vec(), 500_000, Rc::default());
        let printer = Printer { line, times, printed: Rc::clone(&printed) };
        let (mut lines, mut seen, mut count) = (Lines::of(printer), 0, 0);
        while let Some(line) = lines.next().unwrap() {
            (seen, count) = (seen + line.len() as u64 + 1, count + 1);
            assert!(printed.get() - seen <= 64 << 10, "{} were read, {seen} seen", printed.get());
        }
        assert_eq!((count, seen), (times, printed.get()));
        assert!(lines.line.capacity() < 1 << 10);
    }

    #[test]
    fn a_line_of_any_length_needs_no_more_room_than_the_longest() {
        let line = vec![b'x'; 1 << 20];
        let printer = Printer { line, times: 256, printed: Rc::default() };
        let mut lines = Lines::of(printer.chain(&b"\n{}\n"[..]));
        assert_eq!(lines.next().unwrap().map(<[u8]>::len), Some(0));
        assert!(lines.line.capacity() <= 2 * LINE_BYTES_MAX);
        assert_eq!(lines.next().unwrap(), Some(&b"{}"[..]));
        assert_eq!(lines.next().unwrap(), None);
    }

    #[test]
    fn the_longest_line_is_seen_whole() {
        for (bytes, is_whole) in [(LINE_BYTES_MAX - 1, true), (LINE_BYTES_MAX, false)] {
            let text = [vec![b'x'; bytes], b"\nend".to_vec()].concat();
            let mut lines = Lines::of(&text[..]);
            assert_eq!(lines.next().unwrap().unwrap().len(), if is_whole { bytes } else { 0 });
            assert_eq!(lines.next().unwrap(), Some(&b"end"[..]));
        }
    }

    #[test]
    fn a_process_that_prints_very_much_ends_and_its_last_line_is_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "yes '{\"path\":\"/dead\"}' | head -n 2000000; echo end; exit 3"]);
        let (status, last) = run(command, last).unwrap();
        assert_eq!((status.code(), &last[..]), (Some(3), &b"end"[..]));
    }

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        assert_eq!(last(&b"one\ntwo\r\n\n  \n"[..]).unwrap(), b"two");
        assert_eq!(last(&b""[..]).unwrap(), b"");
    }
}
