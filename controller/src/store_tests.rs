use std::net::Ipv4Addr;

use super::*;
use crate::graph::{Attachment, Port};
use inca_wire::address::MacAddr;

/// A path that nobody else uses, gone with the value.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("inca-store-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn graph() -> Graph {
    let mut graph = Graph::default();
    graph.add_switch(9);
    graph.add_link(Port { device: 1, port: 2 }, Port { device: 2, port: 1 });
    let attachment = Attachment { at: Port { device: 1, port: 7 }, mac: MacAddr([2, 0, 0, 0, 0, 1]) };
    graph.add_host(Ipv4Addr::new(10, 0, 0, 1), attachment);
    graph
}

#[test]
fn what_was_saved_is_loaded_and_nothing_where_nothing_was() {
    let place = Place::new("loaded");
    let store = Store::new(&place.0);
    assert_eq!(store.load().unwrap().graph, Graph::default());
    assert!(!place.0.exists(), "looking makes no file");
    store.save_graph(&graph()).unwrap();
    assert_eq!(store.load().unwrap().graph, graph());
    store.save_groups(&Records::default()).unwrap();
    assert_eq!(store.load().unwrap().graph, graph(), "the parts are independent");
}

#[test]
fn another_schema_is_refused_and_kept() {
    let place = Place::new("schema");
    let store = Store::new(&place.0);
    {
        let database = Database::create(&place.0).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(NUMBERS).unwrap().insert("schema", SCHEMA + 1).unwrap();
        transaction.commit().unwrap();
    }
    let error = store.load().unwrap_err();
    assert!(matches!(error, StoreError::Schema { found, .. } if found == SCHEMA + 1), "{error}");
    assert!(error.to_string().contains("version 3"), "{error}");
}

#[test]
fn the_schema_before_this_one_is_read_and_becomes_this_one() {
    let place = Place::new("older");
    let store = Store::new(&place.0);
    {
        let database = Database::create(&place.0).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(NUMBERS).unwrap().insert("schema", 1).unwrap();
        let groups = "{\"groups\": [], \"next_job\": 5, \"next_tree_id\": 6, \"next_generation\": 7}";
        transaction.open_table(TEXTS).unwrap().insert("groups", groups).unwrap();
        transaction.commit().unwrap();
    }
    let records = store.load().unwrap().records;
    assert_ne!(records, Records::default());
    store.save_groups(&records).unwrap();
    assert_eq!(store.load().unwrap().records, records);
    let database = Database::create(&place.0).unwrap();
    let transaction = database.begin_read().unwrap();
    assert_eq!(transaction.open_table(NUMBERS).unwrap().get("schema").unwrap().unwrap().value(), SCHEMA);
}

#[test]
fn a_file_that_is_none_is_an_error_and_no_panic() {
    let place = Place::new("garbage");
    std::fs::write(&place.0, vec![0x5A; 10_000]).unwrap();
    let store = Store::new(&place.0);
    assert!(store.load().unwrap_err().to_string().contains("garbage"));
    assert!(store.save_graph(&graph()).is_err());
}

#[test]
fn two_controllers_may_use_one_file_in_turn() {
    let place = Place::new("turns");
    let stores = [Store::new(&place.0), Store::new(&place.0)];
    std::thread::scope(|scope| {
        for store in &stores {
            scope.spawn(|| (0..10).for_each(|_| store.save_graph(&graph()).unwrap()));
        }
    });
    assert_eq!(stores[1].load().unwrap().graph, graph());
}
