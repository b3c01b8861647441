//! The one way of handing `require` on that every other bundle has: what esbuild puts in front of
//! CommonJS modules in an ES module.

use std::sync::LazyLock;

use regex::Regex;

/// The initial value of `__require`, without white space and comments. Names differ where it was
/// minified. It gives `require` where there is one, and else what throws.
#[expect(clippy::expect_used, reason = "a pattern of ours, which a test compiles")]
static HELPER: LazyLock<Regex> = LazyLock::new(|| {
    let (name, exists) = (r"[\w$]+", r#"typeofrequire(?:!==?"undefined"|<"u")"#);
    let proxy = r#"typeofProxy(?:!==?"undefined"|<"u")"#;
    let get = format!(r"get:\({name},{name}\)=>\({exists}\?require:{name}\)\[{name}\]");
    let given = format!(
        r#"function\({name}\)\{{if\({exists}\)returnrequire\.apply\(this,arguments\);throwError\(.Dynamicrequireof"'\+{name}\+'"isnotsupported.\);?\}}"#
    );
    let chosen =
        format!(r"\(?{name}\)?=>{exists}\?require:{proxy}\?newProxy\({name},\{{{get}\}}\):{name}");
    Regex::new(&format!(r"^\({chosen}\)\({given}\)$")).expect("the pattern is valid")
});

/// Bytes that it has at most.
const LONGEST: usize = 600;

/// Returns whether this is the text of that value.
pub(crate) fn is_helper(text: &str) -> bool {
    text.len() <= LONGEST && {
        let bare: String = text.split_whitespace().collect();
        HELPER.is_match(bare.strip_prefix("/*@__PURE__*/").unwrap_or(&bare))
    }
}
