//! Setting a switch's pipeline, only where it differs: a push wipes all registers.

use std::path::Path;

use thiserror::Error;
use tonic::Code;

use super::{CallError, Client};
use crate::{
    info::{P4Info, P4InfoError},
    p4v1::{
        ForwardingPipelineConfig, GetForwardingPipelineConfigRequest, SetForwardingPipelineConfigRequest,
        forwarding_pipeline_config::Cookie, get_forwarding_pipeline_config_request::ResponseType,
        set_forwarding_pipeline_config_request::Action,
    },
};

/// A compiled program: P4Info, the device's configuration (for BMv2 and the embedded switch: the compiler's JSON), and a
/// cookie by which a switch that has it already is recognised.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// The P4Info.
    pub info: P4Info,
    /// The device's configuration.
    pub device_config: Vec<u8>,
    /// Recognises the pipeline; never 0, which stands for "none".
    pub cookie: u64,
}

/// Why a compiled program can't be loaded from disk.
#[derive(Debug, Error)]
pub enum PipelineFileError {
    /// The P4Info.
    #[error(transparent)]
    Info(#[from] P4InfoError),
    /// The device's configuration.
    #[error("device configuration {path}: {source}")]
    Config {
        /// Path given.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
}

impl Pipeline {
    /// A pipeline whose cookie is derived from its contents.
    pub fn new(info: P4Info, device_config: Vec<u8>) -> Self {
        let cookie = cookie(&[&prost::Message::encode_to_vec(info.message()), &device_config]);
        Self { info, device_config, cookie }
    }

    /// Loads what the compiler wrote.
    pub fn from_files(p4info: impl AsRef<Path>, config: impl AsRef<Path>) -> Result<Self, PipelineFileError> {
        let info = P4Info::from_file(p4info)?;
        let config = config.as_ref();
        let device_config = std::fs::read(config)
            .map_err(|source| PipelineFileError::Config { path: config.display().to_string(), source })?;
        Ok(Self::new(info, device_config))
    }
}

/// What [`Client::ensure_pipeline`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelineState {
    /// The switch ran the pipeline already; tables and registers are as they were.
    Kept,
    /// The pipeline was pushed; all state of the switch is gone.
    Pushed,
}

/// Why a pipeline could not be set.
#[derive(Debug, Clone, Error)]
pub enum PipelineError {
    /// The call failed; the switch says why.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The switch accepted the pipeline and then told of another one.
    #[error(
        "switch {switch}: pipeline with cookie {pushed:#018x} was accepted, but the switch has {found:#018x}"
    )]
    NotKept {
        /// Name of the switch.
        switch: String,
        /// Cookie pushed.
        pushed: u64,
        /// Cookie read back.
        found: u64,
    },
}

impl Client {
    /// The cookie of the pipeline that the switch runs; `None` without pipeline, 0 for a pipeline without cookie.
    pub async fn pipeline_cookie(&self) -> Result<Option<u64>, CallError> {
        let config = self.pipeline_config(ResponseType::CookieOnly).await?;
        Ok(config.map(|config| config.cookie.map_or(0, |cookie| cookie.cookie)))
    }

    /// The pipeline that the switch runs, or the part of it that is asked for; `None` without pipeline.
    pub async fn pipeline_config(
        &self,
        response_type: ResponseType,
    ) -> Result<Option<ForwardingPipelineConfig>, CallError> {
        let request = GetForwardingPipelineConfigRequest {
            device_id: self.inner.config.device_id,
            response_type: response_type.into(),
        };
        let mut rpc = self.rpc();
        let call = async move { rpc.get_forwarding_pipeline_config(request).await };
        let name = format!("GetForwardingPipelineConfig {}", response_type.as_str_name());
        match self.call(name, self.inner.config.call_timeout, call).await {
            Ok(response) => Ok(response.into_inner().config),
            Err(error) if matches!(error.code(), Code::FailedPrecondition | Code::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the switch run this pipeline. Pushes it only if the cookie differs.
    pub async fn ensure_pipeline(&self, pipeline: &Pipeline) -> Result<PipelineState, PipelineError> {
        if self.pipeline_cookie().await? == Some(pipeline.cookie) {
            return Ok(PipelineState::Kept);
        }
        self.push_pipeline(pipeline, Action::VerifyAndCommit).await?;
        match self.pipeline_cookie().await?.unwrap_or_default() {
            found if found == pipeline.cookie => Ok(PipelineState::Pushed),
            found => {
                Err(PipelineError::NotKept { switch: self.name().to_owned(), pushed: pipeline.cookie, found })
            }
        }
    }

    /// Sends this pipeline with the action given, whatever the switch runs.
    pub async fn push_pipeline(&self, pipeline: &Pipeline, action: Action) -> Result<(), CallError> {
        let request = SetForwardingPipelineConfigRequest {
            device_id: self.inner.config.device_id,
            election_id: Some(self.election_id().into()),
            action: action.into(),
            config: (action != Action::Commit).then(|| ForwardingPipelineConfig {
                p4info: Some(pipeline.info.message().clone()),
                p4_device_config: pipeline.device_config.clone(),
                cookie: Some(Cookie { cookie: pipeline.cookie }),
            }),
            ..Default::default()
        };
        let mut rpc = self.rpc();
        let call = async move { rpc.set_forwarding_pipeline_config(request).await };
        let name = format!("SetForwardingPipelineConfig {}", action.as_str_name());
        self.call(name, self.inner.config.pipeline_timeout, call).await?;
        Ok(())
    }
}

/// FNV-1a over the parts and their lengths: stable across versions of everything; it has to recognise, not to protect.
fn cookie(parts: &[&[u8]]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for part in parts {
        (part.len() as u64).to_be_bytes().into_iter().for_each(&mut add);
        part.iter().copied().for_each(&mut add);
    }
    hash.max(1)
}
