//! The types of tasks: what they take, and what they return.

use std::sync::LazyLock;

use crate::problem::Problem;
use crate::schema::{Fault, Schema};
use pinfold_content::{Cid, Value, read};

/// The types, with their schemas.
const TYPES: &str = include_str!("../data/task-types.json");
/// The id of the gate that a producer's input gets.
const SUBMIT: &str = "submit-output";

static TABLE: LazyLock<Value> = LazyLock::new(|| read(TYPES).unwrap_or(Value::Null));

/// A type of tasks.
#[derive(Clone, Debug)]
pub(crate) struct TaskType<'a> {
    pub(crate) name: String,
    parts: &'a Value,
}

impl TaskType<'static> {
    /// Returns the type of this name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        let parts = TABLE.get("types")?.get(name)?;
        Some(Self { name: name.to_owned(), parts })
    }

    /// Returns all types.
    pub(crate) fn all() -> Vec<Self> {
        let types = TABLE.get("types").and_then(Value::as_object);
        let members = types.into_iter().flat_map(|types| types.members());
        members.map(|(name, parts)| Self { name: name.to_str().into_owned(), parts }).collect()
    }
}

impl TaskType<'_> {
    /// Returns `artifact` or `judgment`.
    pub(crate) fn output_kind(&self) -> String {
        self.parts.text_of("kind").unwrap_or_default().into_owned()
    }

    /// Returns whether its tasks have to refer to others.
    pub(crate) fn needs_references(&self) -> bool {
        self.flag("references")
    }

    /// Returns the schema of its input, complete in itself.
    pub(crate) fn input_schema(&self) -> Value {
        let schema = self.parts.get("input").and_then(Value::as_object).cloned();
        let definitions = TABLE.get("$defs").cloned().unwrap_or(Value::Null);
        schema.unwrap_or_default().with("$defs", definitions).into()
    }

    /// Returns the address of that schema. For types of which the original's is known it is that one, because clients
    /// compare it.
    pub(crate) fn schema_cid(&self) -> String {
        let known = self.parts.text_of("cid").map(|cid| cid.into_owned());
        known.unwrap_or_else(|| Cid::of_json(&self.input_schema()).to_string())
    }

    /// Checks an input and returns it as it is kept: a producer has to submit its output.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub(crate) fn normalize(&self, input: &Value) -> Result<Value, Problem> {
        self.check("input", input)?;
        let Some(object) = input.as_object() else { return Err(Problem::internal()) };
        let criteria = object.get("successCriteria");
        if let Some(rubric) = criteria.and_then(|criteria| criteria.get("rubric")) {
            check_weights(rubric)?;
        }
        if self.name == "assess_brief" && criteria.and_then(|all| all.get("rubric")).is_none() {
            return Err(Problem::field("input/successCriteria/rubric", "a rubric is required"));
        }
        if !self.flag("producer") {
            return Ok(input.clone());
        }
        let given = criteria
            .and_then(|criteria| criteria.get("gates"))
            .and_then(Value::as_array)
            .unwrap_or_default();
        if given.iter().any(|gate| gate.text_of("id").is_some_and(|id| id == SUBMIT)) {
            return Ok(input.clone());
        }
        let mut gates = given.to_vec();
        gates.push(self.gate());
        let asked = criteria.and_then(Value::as_object).cloned().unwrap_or_default();
        let version = Value::object([("version", 1_u32.into())]);
        let first = version.as_object().cloned().unwrap_or_default();
        let rest = asked.members().filter(|(key, _)| key.escaped() != "version");
        let criteria = rest
            .fold(first, |all, (key, value)| all.with(&key.to_str(), value.clone()))
            .with("gates", Value::Array(gates));
        Ok(object.with("successCriteria", criteria).into())
    }

    /// Checks an output for an input.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub(crate) fn check_output(
        &self,
        output: &Value,
        input: &Value,
        input_cid: &str,
    ) -> Result<(), Problem> {
        self.check("output", output)?;
        let verification = output.get("verification");
        let Some(verification) = verification else {
            return match input.get("successCriteria") {
                None => Ok(()),
                Some(_) => Err(Problem::field(
                    "output/verification",
                    "verification is required: the task has success criteria",
                )),
            };
        };
        if verification.text_of("inputCid").is_none_or(|cid| cid != input_cid) {
            let message = format!("must be the inputCid of the task: {input_cid}");
            return Err(Problem::field("output/verification/inputCid", message));
        }
        let results = verification.get("results").and_then(Value::as_array).unwrap_or_default();
        let failed = results.iter().any(|it| it.text_of("status").is_some_and(|it| it == "fail"));
        if verification.get("passed").and_then(Value::as_bool) != Some(!failed) {
            let message = "must say whether no result is a failure";
            return Err(Problem::field("output/verification/passed", message));
        }
        Ok(())
    }

    fn check(&self, part: &str, value: &Value) -> Result<(), Problem> {
        let (Some(schema), Some(definitions)) = (self.parts.get(part), TABLE.get("$defs")) else {
            return Err(Problem::internal());
        };
        match (Schema { schema, definitions }).faults(value, part) {
            faults if faults.is_empty() => Ok(()),
            faults => Err(Problem::invalid(faults)),
        }
    }

    fn gate(&self) -> Value {
        let name = &self.name;
        let what =
            format!("Call `submit_{name}_output` exactly once with valid structured output.");
        Value::object([
            ("id", SUBMIT.into()),
            ("kind", "submit-tool-call".into()),
            ("description", what.into()),
            ("required", true.into()),
        ])
    }

    fn flag(&self, name: &str) -> bool {
        self.parts.get(name) == Some(&Value::Bool(true))
    }
}

/// Checks that the weights of a rubric are a whole.
fn check_weights(rubric: &Value) -> Result<(), Problem> {
    let criteria = rubric.get("criteria").and_then(Value::as_array).unwrap_or_default();
    let weight = |criterion: &Value| match criterion.get("weight") {
        Some(Value::Number(weight)) => *weight,
        _ => f64::NAN,
    };
    let sum: f64 = criteria.iter().map(weight).sum();
    if (sum - 1.0).abs() <= 1e-6 {
        return Ok(());
    }
    let message = "the weights of the criteria must add up to 1".to_owned();
    let field = "input/successCriteria/rubric/criteria".to_owned();
    Err(Problem::invalid(vec![Fault { field, message }]))
}

#[cfg(test)]
mod tests {
    use super::TaskType;
    use pinfold_content::{Cid, Value, read};

    fn fields(problem: super::Problem) -> Vec<String> {
        problem.faults.into_iter().map(|fault| fault.field).collect()
    }

    #[test]
    fn all_types_have_schemas_without_faults() {
        let types = TaskType::all();
        assert_eq!(types.len(), 9);
        for kind in types {
            // A schema with an unknown keyword or reference finds fault with everything.
            let faults = fields(kind.normalize(&Value::object([])).unwrap_err());
            assert!(faults.iter().all(|field| field.starts_with("input/")), "{faults:?}");
            assert!(kind.schema_cid().starts_with("bagaaiera"));
        }
    }

    #[test]
    fn producer_has_to_submit_its_output() {
        let kind = TaskType::find("freeform").unwrap();
        let normalized = kind.normalize(&read(r#"{"brief":"x"}"#).unwrap()).unwrap();
        assert_eq!(
            normalized.to_string(),
            "{\"brief\":\"x\",\"successCriteria\":{\"version\":1,\"gates\":[{\"id\":\"submit-output\",\"kind\":\
             \"submit-tool-call\",\"description\":\"Call `submit_freeform_output` exactly once with valid structured \
             output.\",\"required\":true}]}}"
        );
        // Criteria of its own keep their order, and come last.
        let given = r#"{"successCriteria":{"minComposite":1,"version":1,"gates":[]},"brief":"x"}"#;
        let normalized = kind.normalize(&read(given).unwrap()).unwrap().to_string();
        let begin = r#"{"brief":"x","successCriteria":{"version":1,"minComposite":1,"gates":[{"#;
        assert!(normalized.starts_with(begin), "{normalized}");
        // It is not added twice.
        let again = read(&normalized).unwrap();
        assert_eq!(kind.normalize(&again).unwrap(), again);
    }

    #[test]
    fn output_needs_the_verification_of_this_input() {
        let kind = TaskType::find("freeform").unwrap();
        let input = kind.normalize(&read(r#"{"brief":"x"}"#).unwrap()).unwrap();
        let cid = Cid::of_json(&input).to_string();
        let check = |output: &str| kind.check_output(&read(output).unwrap(), &input, &cid);
        let with = |verification: &str| {
            check(&format!(r#"{{"summary":"x","verification":{verification}}}"#))
        };
        assert_eq!(fields(check(r#"{"summary":"x"}"#).unwrap_err()), ["output/verification"]);
        assert_eq!(fields(check(r#"{"summary":"x","y":1}"#).unwrap_err()), ["output/y"]);
        let other = with(r#"{"inputCid":"bagx","results":[],"passed":true}"#).unwrap_err();
        assert_eq!(fields(other), ["output/verification/inputCid"]);
        let result = r#"{"id":"a","kind":"gate","status":"fail"}"#;
        let lie = with(&format!(r#"{{"inputCid":"{cid}","results":[{result}],"passed":true}}"#));
        assert_eq!(fields(lie.unwrap_err()), ["output/verification/passed"]);
        assert!(with(&format!(r#"{{"inputCid":"{cid}","results":[],"passed":true}}"#)).is_ok());
    }

    #[test]
    fn weights_of_a_rubric_add_up() {
        let kind = TaskType::find("assess_brief").unwrap();
        let input = |weight: f64| {
            let criteria = format!(
                r#"[{{"id":"a","description":"d","weight":0.3,"scoring":"boolean"}},
                    {{"id":"b","description":"d","weight":{weight},"scoring":"boolean"}}]"#
            );
            read(&format!(
                r#"{{"targetTaskId":"44444444-4444-4444-8444-444444444444","successCriteria":{{"version":1,
                     "rubric":{{"rubricId":"r","version":"1","criteria":{criteria}}}}}}}"#
            ))
        };
        assert!(kind.normalize(&input(0.7).unwrap()).is_ok());
        assert!(kind.normalize(&input(0.6).unwrap()).is_err());
    }
}
