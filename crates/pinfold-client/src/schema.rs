//! The API's description for other languages (OpenRPC 1.3, spec.open-rpc.org).

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::api::{self, Call, CallVisitor, Notification, NotificationVisitor};

/// Describes every method and every notification.
#[must_use]
pub fn schema() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        "/components/schemas".clone_into(settings.definitions_path.to_mut());
    });
    let mut methods = Methods { generator: settings.into_generator(), methods: Vec::new() };
    api::every_call(&mut methods);
    api::every_notification(&mut methods);
    let Methods { mut generator, methods } = methods;
    let schemas = generator.take_definitions(true);
    json!({
        "openrpc": "1.3.2",
        "info": {
            "title": "pinfold",
            "description": "The local API of `pinfold serve`: one JSON-RPC 2.0 message a line.",
            "version": api::VERSION.to_string(),
        },
        "methods": methods,
        "components": { "schemas": schemas },
    })
}

struct Methods {
    generator: SchemaGenerator,
    methods: Vec<Value>,
}

impl Methods {
    /// Returns the members of a type of parameters, a parameter each.
    fn parameters<P: schemars::JsonSchema>(&mut self) -> Value {
        let schema = P::json_schema(&mut self.generator).to_value();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let parameter = |(name, schema): (String, Value)| json!({ "name": name, "required": required.contains(&json!(name)), "schema": schema });
        properties.into_iter().map(parameter).collect()
    }
}

impl CallVisitor for Methods {
    fn visit<C: Call>(&mut self) {
        let params = self.parameters::<C>();
        let answer = self.generator.subschema_for::<C::Answer>();
        self.methods.push(json!({
            "name": C::METHOD,
            "summary": C::SUMMARY,
            "paramStructure": "by-name",
            "params": params,
            "result": { "name": "result", "schema": answer },
        }));
    }
}

impl NotificationVisitor for Methods {
    fn visit<T: Notification>(&mut self) {
        let params = self.parameters::<T>();
        self.methods.push(json!({
            "name": T::METHOD,
            "summary": T::SUMMARY,
            "tags": [{ "name": "notification" }],
            "paramStructure": "by-name",
            "params": params,
        }));
    }
}
