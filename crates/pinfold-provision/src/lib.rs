//! Agents as content-addressed layers: downloads verified outside, unpacked inside.
