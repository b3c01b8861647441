//! Paths of models in a cloud. A credential of a cloud opens much more than models, so nothing else is asked
//! for with it: paths are read strictly and written again in one form.

use crate::percent;

/// What Bedrock's runtime does with a model at once
/// (docs.aws.amazon.com/bedrock/latest/APIReference/API_Operations_Amazon_Bedrock_Runtime.html).
const BEDROCK: [&str; 5] =
    ["invoke", "invoke-with-response-stream", "converse", "converse-stream", "count-tokens"];

/// What Vertex AI does with a model of a publisher at once
/// (cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.publishers.models).
const VERTEX: [&str; 5] =
    ["rawPredict", "streamRawPredict", "generateContent", "streamGenerateContent", "countTokens"];

/// Longest name of a model, in bytes; Bedrock takes 2048 for an ARN.
const LONGEST: usize = 2048;

/// Where in a cloud the models of a route are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudPlace {
    pub region: String,
    /// The project, for Vertex.
    pub project: Option<String>,
}

/// A request to a model.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ModelPath {
    /// The path in its one form.
    pub(super) path: String,
    pub(super) model: String,
}

/// Reads a path of Bedrock's runtime: `/model/MODEL/OPERATION`.
pub(super) fn bedrock(path: &str) -> Option<ModelPath> {
    let (model, operation) = path.strip_prefix("/model/")?.rsplit_once('/')?;
    let model = percent::decoded(model);
    let is_plain = |segment: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        !segment.is_empty() && !matches!(segment, "." | "..") && segment.bytes().all(plain)
    };
    if !BEDROCK.contains(&operation) || model.len() > LONGEST || !model.split('/').all(is_plain) {
        return None;
    }
    Some(ModelPath { path: format!("/model/{}/{operation}", percent::encoded(&model)), model })
}

/// Reads a path of Vertex AI: `/v1/projects/P/locations/R/publishers/NAME/models/MODEL:METHOD`, of the
/// project and region of the route alone.
pub(super) fn vertex(path: &str, place: &CloudPlace) -> Option<ModelPath> {
    let segments: Vec<String> = path.split('/').map(percent::decoded).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let [
        "",
        "v1",
        "projects",
        project,
        "locations",
        region,
        "publishers",
        publisher,
        "models",
        last,
    ] = segments.as_slice()
    else {
        return None;
    };
    let is_here = Some(*project) == place.project.as_deref() && *region == place.region;
    let (model, method) = last.split_once(':')?;
    let is_name = |text: &str, more: &[u8]| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || more.contains(&byte);
        !text.is_empty() && text.len() <= LONGEST && text.bytes().all(plain)
    };
    let is_model = is_name(model, b"-._@") && !matches!(model, "." | "..");
    if !is_here || !is_name(publisher, b"-") || !is_model || !VERTEX.contains(&method) {
        return None;
    }
    let path = format!(
        "/v1/projects/{project}/locations/{region}/publishers/{publisher}/models/{model}:{method}"
    );
    Some(ModelPath { path, model: model.to_owned() })
}

/// Returns whether a path only counts tokens.
pub(super) fn counts_tokens(path: &str) -> bool {
    path.ends_with("/count-tokens")
        || path.ends_with(":countTokens")
        || path.contains("/models/count-tokens:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> CloudPlace {
        CloudPlace { region: "us-east5".to_owned(), project: Some("mine".to_owned()) }
    }

    #[test]
    fn a_path_of_bedrock_asks_a_model_and_nothing_else() {
        let arn = "arn:aws:bedrock:us-east-1:1:application-inference-profile/x1";
        let encoded_arn =
            "arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aapplication-inference-profile%2Fx1";
        for (path, expected, model) in [
            ("/model/a.b-v1:0/invoke", "/model/a.b-v1%3A0/invoke", "a.b-v1:0"),
            ("/model/a.b-v1%3A0/converse-stream", "/model/a.b-v1%3A0/converse-stream", "a.b-v1:0"),
            (
                &format!("/model/{encoded_arn}/invoke-with-response-stream"),
                &format!("/model/{encoded_arn}/invoke-with-response-stream"),
                arn,
            ),
        ] {
            let read = bedrock(path).unwrap();
            assert_eq!((read.path.as_str(), read.model.as_str()), (expected, model), "{path}");
        }
        for path in [
            "/model//invoke",
            "/model/a/delete",
            "/model/../guardrail/x/invoke",
            "/model/a%2F..%2F..%2Fasync-invoke/invoke",
            "/model/a%252Fb/invoke",
            "/model/a%00/invoke",
            "/model/a b/invoke",
            "/model/a%0d%0a/invoke",
            "/async-invoke",
            "/model/a/invoke/",
            "/guardrail/g/version/1/apply",
            "/v1/model/a/invoke",
        ] {
            assert_eq!(bedrock(path), None, "{path}");
        }
    }

    #[test]
    fn a_path_of_vertex_asks_a_model_of_this_project_and_region() {
        let base = "/v1/projects/mine/locations/us-east5/publishers/anthropic/models";
        let read =
            vertex(&format!("{base}/claude-x%4020250929:streamRawPredict"), &place()).unwrap();
        assert_eq!(read.model, "claude-x@20250929");
        assert_eq!(read.path, format!("{base}/claude-x@20250929:streamRawPredict"));
        for path in [
            "/v1/projects/other/locations/us-east5/publishers/anthropic/models/m:rawPredict",
            "/v1/projects/mine/locations/eu/publishers/anthropic/models/m:rawPredict",
            "/v1/projects/mine/locations/us-east5/customJobs",
            "/v1/projects/mine/locations/us-east5/endpoints/1:predict",
            "/v1/projects/mine/locations/us-east5/publishers/anthropic/models/m:predictLongRunning",
            "/v1/projects/mine/locations/us-east5/publishers/a/models/..:rawPredict",
            "/v1/projects/mine/locations/us-east5/publishers/a/models/m%2Fx:rawPredict",
            "/v1/projects/mine%2F/locations/us-east5/publishers/a/models/m:rawPredict",
            "/v1/projects/mine/locations/us-east5/publishers/a/models/m",
            "//v1/projects/mine/locations/us-east5/publishers/a/models/m:rawPredict",
            "/v1beta1/projects/mine/locations/us-east5/publishers/a/models/m:rawPredict",
        ] {
            assert_eq!(vertex(path, &place()), None, "{path}");
        }
        let nowhere = CloudPlace { project: None, ..place() };
        assert_eq!(vertex(&format!("{base}/m:rawPredict"), &nowhere), None);
    }
}
