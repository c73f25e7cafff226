//! To be written.
pub mod limits;
pub mod properties;

/// Settings in force.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Settings {
    pub order_message_enable: bool,
    pub return_order_topic_config_to_broker: bool,
    pub support_acting_master: bool,
    pub enable_all_topic_list: bool,
    pub enable_topic_list: bool,
    pub notify_min_broker_id_changed: bool,
    pub need_wait_for_service: bool,
    pub wait_seconds_for_service: i32,
    pub delete_topic_with_broker_registration: bool,
    pub serialize_type: crate::wire::frame::SerializeType,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            order_message_enable: false,
            return_order_topic_config_to_broker: true,
            support_acting_master: false,
            enable_all_topic_list: true,
            enable_topic_list: true,
            notify_min_broker_id_changed: false,
            need_wait_for_service: false,
            wait_seconds_for_service: 45,
            delete_topic_with_broker_registration: false,
            serialize_type: crate::wire::frame::SerializeType::Json,
        }
    }
}
