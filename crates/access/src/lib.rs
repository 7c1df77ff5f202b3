//! How a machine reaches its server: identity, enrolment, renewal, the HTTP API.
