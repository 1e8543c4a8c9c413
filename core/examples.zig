//! Random tests → the number of examples to run.

const std = @import("std");
const platform = @import("platform.zig");

/// The number of examples of a random test that runs `count` of them in `make test-all`.
/// TOKENMILL_FUZZ is the share in percent, from 1 to 100; the default is 5.
pub fn examples(count: usize) usize {
    const text = platform.environment("TOKENMILL_FUZZ") orelse "5";
    const share = std.fmt.parseInt(u8, if (text.len == 0) "5" else text, 10) catch 0;
    if (share < 1 or share > 100) @panic("TOKENMILL_FUZZ must be a number from 1 to 100");
    return @max(1, count * share / 100);
}
