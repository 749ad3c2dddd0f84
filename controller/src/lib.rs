//! The inca controller: discovery, reduction trees, installation and the northbound API.
