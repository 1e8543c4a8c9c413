//! Bytes → a pre-tokenizer: the name of a scanner, a compiled program, or stages.
//!
//! A program begins with its magic number, and stages with theirs. After it, each stage has eight
//! bytes: its character class (0: a program), its behaviour, whether it is inverted, a zero, and
//! the length of its program (u32, little-endian), which follows. Python packs them
//! (src/tokenmill/patterns/schemes.py).

const std = @import("std");
const Allocator = std.mem.Allocator;
const pattern = @import("../pattern/program.zig");
const pretokens = @import("../pretokens.zig");
const stages = @import("stages.zig");
const Failure = @import("../failure.zig").Failure;
const Scheme = pretokens.Scheme;

pub const Error = error{ OutOfMemory, UnknownScanner, InvalidProgram, InvalidStages };

pub const stages_magic = "tmS1";
pub const stages_max = 64;
const stage_bytes = 8;

/// Returns the reason for bytes that cannot be read.
pub fn failureOf(failure: Error, bytes: []const u8) Failure {
    return switch (failure) {
        error.OutOfMemory => .out_of_memory,
        error.UnknownScanner => .init(
            .value,
            "unknown pre-tokenizer '{s}'",
            .{bytes[0..@min(bytes.len, 80)]},
        ),
        error.InvalidProgram => .init(.pattern, "not a compiled pattern", .{}),
        error.InvalidStages => .init(
            .value,
            "not the stages of a pre-tokenizer; there are 1 to {d}",
            .{stages_max},
        ),
    };
}

/// Returns the pre-tokenizer, owned by the caller.
pub fn read(gpa: Allocator, bytes: []const u8) Error!Scheme {
    @setRuntimeSafety(true);
    if (std.mem.startsWith(u8, bytes, pattern.magic)) return .{ .program = try .init(gpa, bytes) };
    if (std.mem.startsWith(u8, bytes, stages_magic)) {
        return .{ .stages = try readStages(gpa, bytes[stages_magic.len..]) };
    }
    inline for (comptime std.enums.values(Scheme.Tag)) |tag| {
        if (tag != .program and tag != .stages and std.mem.eql(u8, bytes, @tagName(tag))) {
            // The safe split points are computed when the vocabulary is known.
            if (tag == .safe) return .{ .safe = .whole };
            if (tag == .metaspace) return .{ .metaspace = .blanks };
            return @unionInit(Scheme, @tagName(tag), {});
        }
    }
    return error.UnknownScanner;
}

fn readStages(gpa: Allocator, bytes: []const u8) Error!stages.Stages {
    @setRuntimeSafety(true);
    var list: std.ArrayList(stages.Stage) = .empty;
    errdefer {
        for (list.items) |*stage| stage.deinit(gpa);
        list.deinit(gpa);
    }
    var rest = bytes;
    while (rest.len > 0) {
        if (rest.len < stage_bytes or list.items.len == stages_max) return error.InvalidStages;
        const head = rest[0..stage_bytes];
        const len = std.mem.readInt(u32, head[4..8], .little);
        if (len > rest.len - stage_bytes) return error.InvalidStages;
        const program = rest[stage_bytes..][0..len];
        rest = rest[stage_bytes + len ..];
        try list.ensureUnusedCapacity(gpa, 1);
        list.appendAssumeCapacity(try readStage(gpa, head, program));
    }
    if (list.items.len == 0) return error.InvalidStages;
    return .{ .list = try list.toOwnedSlice(gpa) };
}

fn readStage(gpa: Allocator, head: *const [stage_bytes]u8, program: []const u8) Error!stages.Stage {
    @setRuntimeSafety(true);
    const behaviour = std.enums.fromInt(stages.Behaviour, head[1]) orelse
        return error.InvalidStages;
    if (head[2] > 1 or head[3] != 0) return error.InvalidStages;
    const invert = head[2] == 1;
    if (head[0] == 0) return .{
        .match = .{ .program = try .init(gpa, program) },
        .behaviour = behaviour,
        .invert = invert,
    };
    if (program.len > 0) return error.InvalidStages;
    const class = std.enums.fromInt(stages.Class, head[0] - 1) orelse return error.InvalidStages;
    return .{ .match = .{ .class = class }, .behaviour = behaviour, .invert = invert };
}

test "pretokens: a pre-tokenizer is read, and any other bytes are rejected" {
    const gpa = std.testing.allocator;
    var scanner = try read(gpa, "o200k");
    defer scanner.deinit(gpa);
    try std.testing.expectEqual(Scheme.Tag.o200k, @as(Scheme.Tag, scanner));
    const digits = "\x01\x00\x00\x00\x00\x00\x00\x00";
    var some = try read(gpa, stages_magic ++ digits ** stages_max);
    defer some.deinit(gpa);
    try std.testing.expectEqual(stages_max, some.stages.list.len);
    const cases = .{
        .{ "", error.UnknownScanner },
        .{ "program", error.UnknownScanner },
        .{ "o200k ", error.UnknownScanner },
        .{ pattern.magic, error.InvalidProgram },
        .{ stages_magic, error.InvalidStages },
        .{ stages_magic ++ digits ** (stages_max + 1), error.InvalidStages },
        .{ stages_magic ++ digits[0..7], error.InvalidStages },
        .{ stages_magic ++ "\x05" ++ digits[1..], error.InvalidStages },
        .{ stages_magic ++ "\x01\x05" ++ digits[2..], error.InvalidStages },
        .{ stages_magic ++ "\x01\x00\x02" ++ digits[3..], error.InvalidStages },
        .{ stages_magic ++ "\x01\x00\x00\x00\xff\xff\xff\xff", error.InvalidStages },
        .{ stages_magic ++ "\x00" ++ digits[1..], error.InvalidProgram },
    };
    inline for (cases) |case| {
        const bytes: []const u8 = case[0];
        try std.testing.expectError(case[1], read(gpa, bytes));
    }
}
