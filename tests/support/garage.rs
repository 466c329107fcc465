//! Garage, an S3 server that many people host themselves, as one node in a folder of its own.
//!
//! Its peculiarity: it ignores `If-None-Match`, so that two processes that put the same object if absent both succeed.

use super::process::{free_ports, get};
use super::*;

/// The bucket that is there from the start.
pub const BUCKET: &str = "data";
/// The credentials, in the forms that Garage requires.
const ACCESS_KEY: &str = "GK0123456789abcdef01234567";
const SECRET_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
/// The secret between nodes, which clients do not need.
const RPC_SECRET: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

const DEADLINE: Duration = Duration::from_secs(60);

pub struct Garage {
    _node: Process,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Garage {
    pub fn start(program: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_ports(2);
        let config = folder.path().join("garage.toml");
        let text = format!(
            "metadata_dir = {:?}\ndata_dir = {:?}\ndb_engine = \"sqlite\"\nreplication_factor = 1\n\
             rpc_bind_addr = \"127.0.0.1:{}\"\nrpc_public_addr = \"127.0.0.1:{}\"\nrpc_secret = \"{RPC_SECRET}\"\n\
             [s3_api]\ns3_region = \"garage\"\napi_bind_addr = \"127.0.0.1:{port}\"\n\
             root_domain = \".s3.garage.localhost\"\n",
            folder.path().join("meta"),
            folder.path().join("data"),
            port + 1,
            port + 1,
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(program);
        command.arg("-c").arg(&config).args(["server", "--single-node", "--default-bucket"]);
        command.env("GARAGE_DEFAULT_ACCESS_KEY", ACCESS_KEY).env("GARAGE_DEFAULT_SECRET_KEY", SECRET_KEY);
        let mut node = Process::start("garage", command.env("GARAGE_DEFAULT_BUCKET", BUCKET), folder.path());
        // It makes key and bucket first, and listens then.
        wait_for("Garage to answer", DEADLINE, || {
            assert!(node.ended().is_none(), "Garage ended: {}", node.said());
            get("127.0.0.1", port, "/")
        });
        Self { _node: node, port, _folder: folder }
    }

    /// The variables by which the program under test finds the node and may use it.
    pub fn env(&self) -> Vec<(String, String)> {
        variables(&[
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("AWS_REGION", "garage"),
            ("AWS_ENDPOINT", &format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true"),
        ])
    }
}
