//! P4Runtime: messages, client, server glue, byte strings and typed errors.
