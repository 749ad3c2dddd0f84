//! What switches say themselves, by P4Runtime.

use std::time::Duration;

use inca_p4runtime::chain;
use inca_p4runtime::p4v1::GetForwardingPipelineConfigRequest;
use inca_p4runtime::p4v1::get_forwarding_pipeline_config_request::ResponseType;
use inca_p4runtime::p4v1::p4_runtime_client::P4RuntimeClient;
use tokio::task::JoinSet;
use tonic::Code;
use tonic::transport::Endpoint;

use super::{CliError, Finding};
use crate::api::model::Switch;
use crate::program;

/// How long a switch may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks every switch, all at once. Without a session, so that it disturbs none.
pub(super) async fn examine(switches: &[Switch]) -> Result<Vec<Finding>, CliError> {
    let ours = program::built_in().map_err(std::io::Error::other)?.cookie;
    let mut asked = JoinSet::new();
    for (index, switch) in switches.iter().cloned().enumerate() {
        asked.spawn(async move {
            let cookie = tokio::time::timeout(PATIENCE, cookie(&switch)).await;
            let cookie = cookie.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}")));
            (index, judge(&switch, cookie, ours))
        });
    }
    let mut found = asked.join_all().await;
    found.sort_by_key(|(index, _)| *index);
    Ok(found.into_iter().filter_map(|(_, finding)| finding).collect())
}

/// The cookie of the program that it holds; `None`: it holds none.
async fn cookie(switch: &Switch) -> Result<Option<u64>, String> {
    let target = match switch.target.split_once("://") {
        Some(_) => switch.target.clone(),
        None => format!("http://{}", switch.target),
    };
    let endpoint = Endpoint::from_shared(target).map_err(|error| chain(&error))?;
    let channel = endpoint.connect().await.map_err(|error| chain(&error))?;
    let request = GetForwardingPipelineConfigRequest {
        device_id: switch.device_id,
        response_type: ResponseType::CookieOnly.into(),
    };
    match P4RuntimeClient::new(channel).get_forwarding_pipeline_config(request).await {
        Ok(answer) => {
            Ok(answer.into_inner().config.map(|config| config.cookie.map_or(0, |cookie| cookie.cookie)))
        }
        Err(status) if status.code() == Code::FailedPrecondition => Ok(None),
        Err(status) => Err(format!("{:?}: {}", status.code(), status.message())),
    }
}

fn judge(switch: &Switch, cookie: Result<Option<u64>, String>, ours: u64) -> Option<Finding> {
    let name = &switch.name;
    match cookie {
        Ok(Some(found)) if found == ours => None,
        Ok(Some(found)) => Some(Finding::new(
            format!(
                "switch {name} holds another program: its cookie is {found:#018x}, this version's is {ours:#018x}"
            ),
            "a controller pushes its own: is it of this version (inca status), and does its inventory name another `pipeline`?",
        )),
        Ok(None) => Some(Finding::new(
            format!("switch {name} holds no program"),
            "a controller pushes it as soon as it is in charge: is one running, and is this switch in its inventory?",
        )),
        Err(reason) => Some(Finding::new(
            format!("switch {name}: P4Runtime at {} does not answer: {reason}", switch.target),
            "is its process running, is the address right, and does it speak clear text? (With TLS only the controller reaches it.)",
        )),
    }
}
