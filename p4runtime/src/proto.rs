//! Types generated from `proto/`: P4Runtime (`p4::v1`), P4Info (`p4::config::v1`), the status of gRPC errors
//! (`google::rpc`) and our northbound API (`inca::v1`). The module tree follows the protobuf packages.

/// The serialised `FileDescriptorSet` of everything in this module, for reflection and text format.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod google {
    pub mod rpc {
        tonic::include_proto!("google.rpc");
    }
}

#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod p4 {
    pub mod v1 {
        tonic::include_proto!("p4.v1");
    }
    pub mod config {
        pub mod v1 {
            tonic::include_proto!("p4.config.v1");
        }
    }
}

#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod inca {
    pub mod v1 {
        tonic::include_proto!("inca.v1");
    }
}
