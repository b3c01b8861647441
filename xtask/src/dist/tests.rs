use super::*;

#[test]
fn list_has_what_is_linked_and_nothing_of_tests() {
    let list: serde_json::Value =
        serde_json::from_str(&sbom::of("pinfold", &target().unwrap()).unwrap()).unwrap();
    let components = list["components"].as_array().unwrap();
    let names: Vec<&str> = components.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"rustls") && names.contains(&"pinfold-policy"), "{names:?}");
    assert!(!names.contains(&"proptest") && !names.contains(&"pinfold-testkit"), "{names:?}");
    assert_eq!(list["metadata"]["component"]["name"], "pinfold");
}
