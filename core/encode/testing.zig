//! A tokenizer for tests.

const std = @import("std");
const normal = @import("../normalize.zig");
const preprocess = @import("../preprocess.zig");
const Tokenizer = @import("tokenizer.zig").Tokenizer;
const mark = preprocess.mark;

const testing = std.testing;

/// A tokenizer of single bytes with a few added tokens, where "▁" is treated as a space.
pub fn testTokenizer(prefix: preprocess.Prefix) !Tokenizer {
    var bytes: [256]u8 = undefined;
    var numbers: [256]u32 = undefined;
    for (&bytes, &numbers, 0..) |*byte, *id, index| {
        byte.* = @intCast(index);
        id.* = @intCast(index);
    }
    var steps: normal.Steps = try .init(testing.allocator, "");
    errdefer steps.deinit(testing.allocator);
    const lengths: [256]u32 = @splat(1);
    var culprit: u32 = 0;
    const Vocabulary = @import("../vocabulary.zig").Vocabulary;
    const vocabulary: Vocabulary =
        try .fromTokens(testing.allocator, &bytes, &lengths, &numbers, 1, &culprit);
    const given: preprocess.PreprocessorOptions = .{
        .names = "<a>a" ++ mark ++ "bbbc d",
        .lengths = &.{ 3, 5, 2, 3 },
        .ids = &.{ 300, 301, 302, 303 },
        .flags = &.{
            .{},
            .{ .normalized = true },
            .{ .normalized = true },
            .{ .normalized = true },
        },
        .prefix = prefix,
        .space_marker = true,
    };
    var index: usize = 0;
    const preprocessor: preprocess.Preprocessor =
        try .init(testing.allocator, given, steps, &index);
    return .init(testing.allocator, vocabulary, .r50k, preprocessor, 1);
}
