//! Contractions in a block: an apostrophe and letters that form one pretoken.

const runs = @import("../runs.zig");

/// If there is a contraction at `at`, removes the starts inside it and adds one after it.
pub inline fn split(bits: u64, text: [*]const u8, at: u6, comptime case: runs.Case) u64 {
    const found = length(text, at, case);
    if (found == 0) return bits;
    const inside = ((@as(u64, 1) << @intCast(found - 1)) - 1) << at << 1;
    const behind = if (@as(usize, at) + found < 64) @as(u64, 1) << @intCast(at + found) else 0;
    return (bits & ~inside) | behind;
}

/// Returns the length of a contraction. Bytes after the text can only produce contractions that end
/// after the text.
pub inline fn length(text: [*]const u8, at: u6, comptime case: runs.Case) u6 {
    return @intCast(runs.contractionLen(text[0 .. @as(usize, at) + 3], at, case));
}
