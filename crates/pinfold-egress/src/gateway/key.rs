//! The key an agent holds instead of the real one.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustix::rand::{GetRandomFlags, getrandom};
use subtle::ConstantTimeEq as _;

/// Random bytes in a key: 256 bits.
const RANDOM: usize = 32;

/// The shape of the real credential. Agents look at it: with `sk-ant-oat…` pi sends other
/// headers and other tool names than with `sk-ant-api…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyShape {
    /// `sk-ant-api03-…`, a key of Anthropic's API.
    AnthropicApiKey,
    /// `sk-ant-oat01-…`, a token of an Anthropic subscription.
    AnthropicOauth,
    /// `AIza…`, a key of Google's API.
    Gemini,
    /// `sk-…`, a key of OpenAI's API and of those that imitate it.
    OpenAi,
}

/// A key that opens the gateway for one session and nothing else. It has no `Debug`, so that it
/// does not get into logs by accident.
#[derive(Clone)]
pub struct EphemeralKey(String);

impl EphemeralKey {
    /// Makes a new key of 256 random bits.
    ///
    /// # Errors
    /// Returns an error if the kernel gave no random bytes.
    pub fn generate(shape: KeyShape) -> io::Result<Self> {
        let prefix = match shape {
            KeyShape::AnthropicApiKey => "sk-ant-api03-",
            KeyShape::AnthropicOauth => "sk-ant-oat01-",
            KeyShape::Gemini => "AIza",
            KeyShape::OpenAi => "sk-",
        };
        let mut random = [0u8; RANDOM];
        let mut filled = 0;
        while filled < RANDOM {
            filled += getrandom(&mut random[filled..], GetRandomFlags::empty())?;
        }
        Ok(Self(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random))))
    }

    /// Returns the key, to be handed to the agent.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether this is the key presented, in a time that reveals nothing but its length.
    pub(crate) fn matches(&self, presented: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(presented).into()
    }
}
