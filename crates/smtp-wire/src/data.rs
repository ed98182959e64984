//! DATA content: dot-unstuffing and the search for the end.
