//! The vectors of AWS's own test suite for Signature Version 4.

use std::time::{Duration, UNIX_EPOCH};

use http::header::{CONTENT_TYPE, HOST};

use super::*;

/// 2015-08-30T12:36:00Z, the time of all vectors.
const AT: Duration = Duration::from_secs(1_440_938_160);

const KEYS: &str = r#"{"Version":1,"AccessKeyId":"AKIDEXAMPLE",
    "SecretAccessKey":"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}"#;

fn signed(
    method: &str,
    path: &str,
    query: &str,
    content_type: Option<&'static str>,
    body: &str,
) -> String {
    let keys = AwsKeys::read(KEYS).unwrap();
    let signer =
        Signer { keys: &keys, region: "us-east-1", service: "service", at: UNIX_EPOCH + AT };
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static("example.amazonaws.com"));
    headers.extend(content_type.map(|value| (CONTENT_TYPE, HeaderValue::from_static(value))));
    let method = method.parse().unwrap();
    let request = Unsigned { method: &method, path, query, body: body.as_bytes() };
    signer.sign(&request, &mut headers).unwrap();
    assert_eq!(headers[DATE], "20150830T123600Z");
    headers[AUTHORIZATION].to_str().unwrap().to_owned()
}

#[test]
fn signatures_are_those_of_the_published_vectors() {
    let form = Some("application/x-www-form-urlencoded");
    for (vector, signature) in [
        // get-vanilla
        (
            signed("GET", "/", "", None, ""),
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        // post-vanilla
        (
            signed("POST", "/", "", None, ""),
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        // get-vanilla-query-order-key-case
        (
            signed("GET", "/", "Param2=value2&Param1=value1", None, ""),
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        // post-x-www-form-urlencoded
        (
            signed("POST", "/", "", form, "Param1=value1"),
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
    ] {
        assert!(vector.ends_with(&format!("Signature={signature}")), "{vector}");
        let scope = "Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request";
        assert!(vector.contains(scope), "{vector}");
    }
}

/// docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-signing-elements.html
#[test]
fn the_key_is_derived_as_in_the_published_example() {
    let keys = AwsKeys::read(KEYS).unwrap();
    let signer = Signer { keys: &keys, region: "us-east-1", service: "iam", at: UNIX_EPOCH + AT };
    // The key itself cannot be read; the signature of the published text stands for it.
    let to_sign = "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/iam/aws4_request\n\
        f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59";
    let signature =
        HEXLOWER.encode(hmac::sign(&signer.key("20150830"), to_sign.as_bytes()).as_ref());
    assert_eq!(signature, "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");
}

#[test]
fn an_encoded_path_is_encoded_again_and_a_token_is_signed() {
    let keys = r#"{"AccessKeyId":"A","SecretAccessKey":"S","SessionToken":"T"}"#;
    let keys = AwsKeys::read(keys).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static("h"));
    let method = Method::POST;
    let request = Unsigned { method: &method, path: "/model/a%3A0/invoke", query: "", body: b"{}" };
    let signer = Signer { keys: &keys, region: "r", service: "bedrock", at: UNIX_EPOCH + AT };
    signer.sign(&request, &mut headers).unwrap();
    assert_eq!(headers[TOKEN], "T");
    let (canonical, names) = canonical(&request, &headers).unwrap();
    assert!(canonical.starts_with("POST\n/model/a%253A0/invoke\n\nhost:h\n"), "{canonical}");
    assert_eq!(names, "host;x-amz-date;x-amz-security-token");
}

#[test]
fn malformed_key_pair_is_rejected() {
    for text in ["ABSK-a-key-of-bedrock", "{}", r#"{"AccessKeyId":"A"}"#, "[]", ""] {
        assert!(AwsKeys::read(text).is_none(), "{text}");
    }
    let broken = r#"{"AccessKeyId":"A","SecretAccessKey":"S","SessionToken":1}"#;
    assert!(AwsKeys::read(broken).is_none());
}
