//! The compiled P4 program: what is pushed to every switch.

use inca_p4runtime::client::{Pipeline, PipelineFileError};
use inca_p4runtime::{P4Info, P4InfoError};

use crate::inventory::PipelinePaths;

const BUILT_IN_JSON: &str = include_str!("../../../p4/compiled/inca.json");
const BUILT_IN_P4INFO: &str = include_str!("../../../p4/compiled/inca.p4info.txtpb");

/// The program this controller was built with.
pub fn built_in() -> Result<Pipeline, P4InfoError> {
    Ok(Pipeline::new(P4Info::from_text(BUILT_IN_P4INFO)?, BUILT_IN_JSON.into()))
}

/// The inventory's program, or the one this controller was built with.
pub fn load(paths: Option<&PipelinePaths>) -> Result<Pipeline, PipelineFileError> {
    match paths {
        Some(paths) => Pipeline::from_files(&paths.p4info, &paths.json),
        None => Ok(built_in()?),
    }
}
