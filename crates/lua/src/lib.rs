//! lua
