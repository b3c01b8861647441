//! The network door: the gateway that puts real credentials in, outside.
