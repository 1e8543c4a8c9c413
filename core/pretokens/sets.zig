//! A code point → whether it is a digit, or punctuation, of Hugging Face's pre-tokenizers.
//!
//! Nearly all text lies in the first plane, of which there is a bit for each character: one read.
//! The others are searched for among the bounds.

const std = @import("std");
const classes = @import("classes.zig");

pub const Digits = Set(&classes.digits);
pub const Punctuation = Set(&classes.punctuation);

/// Bytes whose characters in byte-level vocabularies are digits: visible bytes are shown as the
/// characters of their number (0xB2 as ²), the others as letters.
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

        /// Whether it lies between two bounds of the sorted starts and ends; the slow twin, too.
        fn isBetween(code_point: u21) bool {
            return std.sort.upperBound(u21, bounds, code_point, order) % 2 == 1;
        }
    };
}

fn order(code_point: u21, bound: u21) std.math.Order {
    return std.math.order(code_point, bound);
}

test "sets: bits are what lies between the bounds" {
    for (0..0x110000) |code_point| {
        inline for (.{ Digits, Punctuation }) |Each| {
            const cp: u21 = @intCast(code_point);
            try std.testing.expectEqual(Each.isBetween(cp), Each.has(cp));
        }
    }
}
