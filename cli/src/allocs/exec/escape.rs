//! The escape in typed input: it ends a session whose command takes all keys.

/// Finds escapes. At the start of a line the mark and a dot end the session, two marks send one.
#[derive(Debug)]
pub(super) struct Escape {
    /// `None`: there is no escape.
    mark: Option<u8>,
    place: Place,
}

/// Place of the next byte in its line.
#[derive(Debug)]
enum Place {
    Start,
    BehindMark,
    Inside,
}

/// Typed bytes without their escapes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Typed {
    /// Bytes for the command.
    pub data: Vec<u8>,
    /// Whether the user ends the session.
    pub hangs_up: bool,
}

impl Escape {
    /// The escape of `-e`: `none`, or one character of ASCII.
    ///
    /// # Errors
    /// The text is something else.
    pub(super) fn parse(typed: &str) -> Result<Self, &'static str> {
        let mark = match (typed, typed.as_bytes()) {
            ("" | "none", _) => None,
            (_, [mark]) => Some(*mark),
            _ if typed.chars().count() == 1 => return Err("-e requires a character of ASCII"),
            _ => return Err("-e requires 'none' or a single character"),
        };
        Ok(Self { mark, place: Place::Start })
    }

    /// No escape: input that is not typed on a terminal is passed on as it is.
    pub(super) fn none() -> Self {
        Self { mark: None, place: Place::Start }
    }

    /// Takes the escapes out of the next bytes.
    pub(super) fn take(&mut self, bytes: Vec<u8>) -> Typed {
        let Some(mark) = self.mark else { return Typed { data: bytes, hangs_up: false } };
        let mut data = Vec::with_capacity(bytes.len() + 1);
        for byte in bytes {
            match self.place {
                Place::Start if byte == mark => {
                    self.place = Place::BehindMark;
                    continue;
                }
                Place::BehindMark if byte == b'.' => return Typed { data, hangs_up: true },
                Place::BehindMark if byte == mark => data.push(mark),
                Place::BehindMark => data.extend([mark, byte]),
                Place::Start | Place::Inside => data.push(byte),
            }
            // A terminal in raw mode sends Enter as a carriage return.
            self.place = if matches!(byte, b'\r' | b'\n') { Place::Start } else { Place::Inside };
        }
        Typed { data, hangs_up: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command's part of each piece, and `END` at the end of the session.
    fn sent(mark: &str, pieces: &[&str]) -> String {
        let mut escape = Escape::parse(mark).expect("it is a mark");
        let mut out = Vec::new();
        for piece in pieces {
            let typed = escape.take(piece.as_bytes().to_vec());
            out.push(String::from_utf8_lossy(&typed.data).into_owned());
            if typed.hangs_up {
                out.push("END".to_owned());
                break;
            }
        }
        out.join("|")
    }

    #[test]
    fn mark_and_dot_at_the_start_of_a_line_end_the_session() {
        assert_eq!(sent("~", &["~.", "ls"]), "|END");
        assert_eq!(sent("~", &["ls\r", "~", ".", "x"]), "ls\r|||END");
        assert_eq!(sent("~", &["a\r~.b"]), "a\r|END");
    }

    #[test]
    fn mark_inside_a_line_is_sent() {
        assert_eq!(sent("~", &["cd ~.\r"]), "cd ~.\r");
        assert_eq!(sent("~", &["a~", "."]), "a~|.");
    }

    #[test]
    fn two_marks_send_one_and_other_keys_send_both() {
        assert_eq!(sent("~", &["~~."]), "~.");
        assert_eq!(sent("~", &["~x"]), "~x");
        assert_eq!(sent("~", &["~\r~."]), "~\r|END");
        assert_eq!(sent("%", &["~.%%"]), "~.%%");
    }

    #[test]
    fn escape_is_none_or_one_character() {
        assert_eq!(sent("none", &["~."]), "~.");
        assert_eq!(sent("", &["~."]), "~.");
        assert!(Escape::parse("toolong").is_err());
        assert!(Escape::parse("é").is_err());
    }
}
