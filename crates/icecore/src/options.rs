//! Global options: what every command can be told.

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::path::PathBuf;

/// Options of every command.
#[derive(Args, Debug, Default, Clone)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    // An empty variable counts as unset: clap's own parser would call it an error.
    /// Directory of the repository, or s3://BUCKET/PREFIX.
    #[arg(
        short,
        long,
        global = true,
        value_name = "DIR",
        env = "ICECORE_REPO",
        hide_env_values = true,
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    pub(crate) repo: Option<PathBuf>,
    /// Read from this copy what the repository has lost (several times for several) [env: ICECORE_COPIES, a line each].
    #[arg(long, global = true, value_name = "REPOSITORY", hide_short_help = true)]
    pub(crate) copies: Vec<PathBuf>,
    /// Read the password or recovery key from this file [env: ICECORE_PASSWORD_FILE; the password itself:
    /// ICECORE_PASSWORD].
    #[arg(short, long, global = true, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Take the password from the output of this command [env: ICECORE_PASSWORD_COMMAND].
    #[arg(long, global = true, value_name = "COMMAND", conflicts_with = "password_file")]
    pub(crate) password_command: Option<String>,
    /// Use a profile of the config file.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "ICECORE_PROFILE",
        hide_env_values = true
    )]
    pub(crate) profile: Option<String>,
    /// Print one JSON object per line; the last one is a summary or an error.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only problems.
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    // Last: what follows a flattened group stands below its heading.
    #[command(flatten)]
    pub(crate) server: ServerOptions,
}

/// Options for a machine that is a node of a server.
#[derive(Args, Debug, Default, Clone)]
#[command(next_help_heading = "Options for a node of a server")]
pub(crate) struct ServerOptions {
    /// Agent state directory [default: /var/lib/icecore/agent for root, otherwise in the user's state directory].
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        hide_short_help = true,
        env = "ICECORE_AGENT_DIR",
        hide_env_values = true,
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    pub(crate) agent_dir: Option<PathBuf>,
    /// Read the backups of another node's domain. The server must have granted it.
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME")]
    pub(crate) domain: Option<String>,
    /// The agent starts this for a node command: repositories of a config file do not apply.
    #[arg(long, global = true, hide = true)]
    pub(crate) node_command: bool,
    /// The number of the node command.
    #[arg(long, global = true, hide = true, value_name = "N", requires = "node_command")]
    pub(crate) command_number: Option<u64>,
    /// The number of the job of the server.
    #[arg(long, global = true, hide = true, value_name = "N", requires = "node_command")]
    pub(crate) job_number: Option<u64>,
    /// The client options of the server for this backup, in place of those for the node.
    #[arg(long, global = true, hide = true, value_name = "JSON", requires = "node_command")]
    pub(crate) job_options: Option<String>,
    /// Connections per job, 1 to 10 [default: up to 4, as long as another one raises the throughput].
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "N",
        value_parser = clap::value_parser!(u8).range(1..=10)
    )]
    pub(crate) streams: Option<u8>,
    /// Size of the socket buffers [default: chosen by the system].
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "SIZE",
        value_parser = crate::units::parse_bytes
    )]
    pub(crate) socket_buffer: Option<u64>,
}
