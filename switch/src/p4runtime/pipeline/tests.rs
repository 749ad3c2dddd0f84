use inca_p4runtime::p4config;

use super::*;

fn config() -> ForwardingPipelineConfig {
    let info =
        P4Info::from_text(include_str!("../../../../tests/fixtures/p4runtime/objects.p4info.txtpb")).unwrap();
    ForwardingPipelineConfig {
        p4info: Some(info.message().clone()),
        p4_device_config: include_bytes!("../../../../tests/fixtures/p4runtime/objects.json").to_vec(),
        cookie: None,
    }
}

fn refused(change: impl FnOnce(&mut ForwardingPipelineConfig)) -> String {
    let mut config = config();
    change(&mut config);
    Pipeline::verify(config).unwrap_err().to_string()
}

fn table<'a>(info: &'a mut Option<p4config::P4Info>, alias: &str) -> &'a mut p4config::Table {
    let tables = &mut info.as_mut().unwrap().tables;
    tables.iter_mut().find(|table| table.preamble.as_ref().unwrap().alias == alias).unwrap()
}

#[test]
fn ids_and_handles_go_both_ways() {
    let pipeline = Pipeline::verify(config()).unwrap();
    for table in pipeline.info.tables() {
        let handle = pipeline.table(table.id).unwrap();
        assert_eq!(pipeline.table_id(handle), Some(table.id));
        for action in &table.actions {
            let action = pipeline.info.action_by_id(action.id).unwrap();
            let handle = pipeline.table_action(handle, action).unwrap();
            assert_eq!(pipeline.action_info(handle).unwrap().id, action.id);
        }
    }
    assert_eq!(pipeline.register(1), None);
}

#[test]
fn what_is_missing_or_broken_is_named() {
    assert_eq!(refused(|c| c.p4info = None), "the configuration has no p4info");
    assert_eq!(refused(|c| c.p4_device_config.clear()), "the configuration has no p4_device_config");
    assert!(refused(|c| c.p4_device_config = vec![0xFF]).starts_with("p4_device_config is not text"));
    assert!(refused(|c| c.p4_device_config = b"{}".to_vec()).starts_with("p4_device_config: "));
}

#[test]
fn a_p4info_of_another_program_is_refused() {
    assert_eq!(
        refused(|c| table(&mut c.p4info, "fixed").preamble.as_mut().unwrap().name = "other".into()),
        "p4info and p4_device_config do not belong together: table other is not in the device configuration"
    );
    assert_eq!(
        refused(|c| table(&mut c.p4info, "lpm_match").match_fields[0].bitwidth = 31),
        "p4info and p4_device_config do not belong together: table ObjectsIngress.lpm_match field key has 31 bits \
         in the p4info, 32 in the device configuration"
    );
    assert!(refused(|c| table(&mut c.p4info, "fixed").match_fields.clear()).ends_with(
        "table ObjectsIngress.fixed has 0 match fields in the p4info, 1 in the device configuration"
    ));
    let error = refused(|c| {
        let actions = &mut c.p4info.as_mut().unwrap().actions;
        let key = actions.iter_mut().find(|a| a.preamble.as_ref().unwrap().alias == "set_key").unwrap();
        key.params[0].bitwidth = 16;
    });
    assert!(error.contains("action ObjectsIngress.set_key has parameters of [16] bits"), "{error}");
}
