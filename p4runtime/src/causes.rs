//! What an error says in full.

/// An error with its causes: the outermost one of the transport says no more than "transport error". A cause that an error names
/// in its own text is not named again.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Opening {
        #[error("port 1: {0}")]
        Named(#[source] std::io::Error),
        #[error("port 1")]
        Silent(#[source] std::io::Error),
    }

    #[test]
    fn every_cause_is_said_once() {
        let cause = || std::io::Error::other("no such device");
        assert_eq!(chain(&Opening::Named(cause())), "port 1: no such device");
        assert_eq!(chain(&Opening::Silent(cause())), "port 1: no such device");
    }
}
