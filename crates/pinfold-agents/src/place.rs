//! Where a provider is: a URL that may name a region.

use std::collections::BTreeMap;
use std::str::FromStr;

use pinfold_policy::settings::{BaseUrl, BaseUrlError, CloudName};

/// What stands for the region in a [`UrlTemplate`].
const REGION: &str = "{region}";

/// A base URL, or one for each region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlTemplate {
    text: String,
    /// Regions that have another URL.
    pub(crate) others: BTreeMap<String, BaseUrl>,
}

impl UrlTemplate {
    /// Returns whether the URL needs a region.
    #[must_use]
    pub fn needs_region(&self) -> bool {
        self.text.contains(REGION)
    }

    /// Returns the URL for a region. `None` if it needs a region and none is given.
    #[must_use]
    pub fn url(&self, region: Option<&CloudName>) -> Option<BaseUrl> {
        if !self.needs_region() {
            return self.text.parse().ok();
        }
        let region = region?.as_str();
        let other = self.others.get(region).cloned();
        other.or_else(|| self.text.replace(REGION, region).parse().ok())
    }
}

impl FromStr for UrlTemplate {
    type Err = BaseUrlError;

    fn from_str(text: &str) -> Result<Self, BaseUrlError> {
        // A name of a region is a label or a part of one, so what is sound for one is for all.
        text.replace(REGION, "r").parse::<BaseUrl>()?;
        Ok(Self { text: text.to_owned(), others: BTreeMap::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_becomes_a_part_of_the_url_and_nothing_else() {
        let template: UrlTemplate = "https://bedrock.{region}.example.com".parse().unwrap();
        let region: CloudName = "eu-west-1".parse().unwrap();
        assert!(template.needs_region() && template.url(None).is_none());
        let url = template.url(Some(&region)).unwrap();
        assert_eq!(url.as_str(), "https://bedrock.eu-west-1.example.com");
        assert_eq!("ftp://{region}".parse::<UrlTemplate>(), Err(BaseUrlError::Scheme));
    }

    #[test]
    fn some_regions_have_a_url_of_their_own() {
        let mut template: UrlTemplate = "https://{region}-x.example.com".parse().unwrap();
        template.others.insert("global".to_owned(), "https://x.example.com".parse().unwrap());
        let url = |region: &str| template.url(Some(&region.parse().unwrap())).unwrap();
        assert_eq!(url("global").as_str(), "https://x.example.com");
        assert_eq!(url("us-east5").as_str(), "https://us-east5-x.example.com");
    }
}
