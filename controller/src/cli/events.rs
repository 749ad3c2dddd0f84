//! `inca events`.

use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use inca_p4runtime::northbound as api;

use super::{CliError, Target, print};
use crate::api::model::Event;

/// How long the events that are remembered may take to come.
const REMEMBERED: Duration = Duration::from_millis(300);

/// Options of `inca events`.
#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    /// Go on with what happens, until the controller ends
    #[arg(short, long)]
    follow: bool,
    /// Begin after the event of this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    after: u64,
    /// Only what happens from now on; with --follow
    #[arg(long, requires = "follow")]
    new: bool,
    /// End after so many events
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,
}

/// Prints events, one a line.
pub(super) async fn events(target: &Target, args: &EventsArgs) -> Result<(), CliError> {
    let mut client = target.connect().await?;
    let request = api::EventsRequest { after: args.after, only_new: args.new };
    let answer = client.operator.events(request).await;
    let mut stream = client.taken(answer)?;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 {
        let event = match args.follow {
            true => stream.message().await,
            false => match tokio::time::timeout(REMEMBERED, stream.message()).await {
                Ok(event) => event,
                Err(_) => return Ok(()),
            },
        };
        let Some(event) = event.map_err(|status| client.refused(&status))? else { return Ok(()) };
        left -= 1;
        print(&line(&event.into(), target.json)?)?;
    }
    Ok(())
}

fn line(event: &Event, as_json: bool) -> Result<String, CliError> {
    if as_json {
        return Ok(serde_json::to_string(event).map_err(std::io::Error::other)? + "\n");
    }
    Ok(format!("{:>6}  {}  {:<16}  {}\n", event.number, clock(event.time_ms), event.kind, event.message))
}

/// Time of day, in UTC.
fn clock(time_ms: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(time_ms);
    let of_day = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() % 86_400_000;
    let (seconds, ms) = (of_day / 1000, of_day % 1000);
    format!("{:02}:{:02}:{:02}.{ms:03}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_the_day() {
        assert_eq!(clock(0), "00:00:00.000Z");
        assert_eq!(clock(86_400_000 * 3 + 3_723_045), "01:02:03.045Z");
    }
}
