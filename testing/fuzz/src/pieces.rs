//! Cuts input into pieces, chosen by one octet of it: what a network does to a stream.

/// `input` in pieces: whole for selector 0, octet by octet for 1, else lengths that differ but
/// follow from the selector.
pub fn pieces(selector: u8, input: &[u8]) -> Vec<&[u8]> {
    let mut state = u32::from(selector);
    let mut rest = input;
    let mut found = Vec::new();
    while !rest.is_empty() {
        // A linear congruential step; its high octets vary enough.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = match selector {
            0 => rest.len(),
            1 => 1,
            2..128 => 1 + (state >> 28) as usize,
            _ => 1 + (state >> 20) as usize,
        };
        let (piece, behind) = rest.split_at(length.min(rest.len()));
        found.push(piece);
        rest = behind;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_input() {
        let input: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for selector in 0..=255 {
            assert_eq!(pieces(selector, &input).concat(), input);
        }
    }
}
