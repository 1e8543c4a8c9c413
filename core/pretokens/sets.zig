//! Code point → whether Hugging Face's pre-tokenizers treat it as a digit or as punctuation.
//!
//! Nearly all text is in the first plane, which has a bitmap: one load. Other code points are
//! searched for among the bounds.

const std = @import("std");
const classes = @import("classes.zig");

pub const Digits = Set(&classes.digits);
pub const Punctuation = Set(&classes.punctuation);

/// Bytes that byte-level vocabularies display as digits. Visible bytes are displayed as the
/// character of their number (0xB2 as ²), others as letters.
pub const spelled_digits: [256]bool = blk: {
    var all: [256]bool = undefined;
    for (&all, 0..) |*is_digit, byte| is_digit.* = Digits.has(byte);
    break :blk all;
};

fn Set(comptime bounds: []const u21) type {
    return struct {
        const plane_len = 1 << 16;
        const plane: [plane_len / 64]u64 = blk: {
            @setEvalBranchQuota(20_000);
            var bits: [plane_len / 64]u64 = @splat(0);
            var index = 0;
            while (index < bounds.len and bounds[index] < plane_len) : (index += 2) {
                for (bounds[index]..@min(bounds[index + 1], plane_len)) |code_point| {
                    bits[code_point / 64] |= 1 << code_point % 64;
                }
            }
            break :blk bits;
        };

        pub inline fn has(code_point: u21) bool {
            if (code_point < plane_len) {
                return plane[code_point / 64] >> @intCast(code_point % 64) & 1 != 0;
            }
            return isBetween(code_point);
        }

        /// Binary search in the sorted starts and ends; also the reference implementation.
        fn isBetween(code_point: u21) bool {
            return std.sort.upperBound(u21, bounds, code_point, order) % 2 == 1;
        }
    };
}

fn order(code_point: u21, bound: u21) std.math.Order {
    return std.math.order(code_point, bound);
}

test "sets: the bitmap equals the ranges between the bounds" {
    for (0..0x110000) |code_point| {
        inline for (.{ Digits, Punctuation }) |Each| {
            const cp: u21 = @intCast(code_point);
            try std.testing.expectEqual(Each.isBetween(cp), Each.has(cp));
        }
    }
}
