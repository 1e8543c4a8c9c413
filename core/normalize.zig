//! Text → normalized text, the step before pre-tokenization.
//!
//! A tokenizer has a list of steps (Unicode normalization forms, lower case, replacements and so
//! on), packed by src/tokenmill/formats/build.py. Each step first checks whether it changes the
//! text, so text that is already normalized costs one scan and is not copied. Otherwise the step
//! writes a new text. If offsets are requested, it also writes the alignment of the new bytes with
//! the original text, by the rules of Hugging Face's tokenizers 0.23.
//!
//! Invalid UTF-8 passes through unchanged. The growth of a text per step is bounded when the steps
//! are packed.

const std = @import("std");
const edges = @import("normalize/edges.zig");
const forms = @import("normalize/forms.zig");
const lower = @import("normalize/lower.zig");
const places_ = @import("normalize/places.zig");
const Program = @import("pattern/program.zig").Program;
const replace = @import("normalize/replace.zig");
const unicode = @import("unicode.zig");
const Failure = @import("failure.zig").Failure;
const Charsmap = @import("normalize/charsmap.zig").Charsmap;
const Output = @import("normalize/output.zig").Output;

const Allocator = std.mem.Allocator;
pub const Place = places_.Place;
pub const Places = places_.Cursor;
pub const Run = places_.Run;
pub const Runs = places_.Runs;
pub const spread = places_.spread;
pub const unchanged = places_.unchanged;

pub const Error = error{ OutOfMemory, InvalidSteps };

/// Returns the reason for steps that cannot be read.
pub fn failureOf(failure: Error) Failure {
    return switch (failure) {
        error.OutOfMemory => .out_of_memory,
        error.InvalidSteps => .init(
            .vocabulary,
            "the normalizer is damaged: a map or a pattern in it cannot be read",
            .{},
        ),
    };
}

/// A text that was changed by steps.
pub const Normal = struct {
    bytes: []u8,
    /// Alignment with the original text; empty unless requested.
    places: []Run,

    pub fn deinit(self: *Normal, gpa: Allocator) void {
        gpa.free(self.bytes);
        gpa.free(self.places);
        self.* = undefined;
    }
};

const Step = union(enum) {
    form: forms.Form,
    lower,
    prepend: []u8,
    literal: struct { match: []u8, content: []u8 },
    pattern: struct { program: Program, content: []u8 },
    strip: struct { left: bool, right: bool },
    charsmap: Charsmap,
    squeeze,

    fn deinit(self: *Step, gpa: Allocator) void {
        switch (self.*) {
            .prepend => |text| gpa.free(text),
            .literal => |texts| {
                gpa.free(texts.match);
                gpa.free(texts.content);
            },
            .pattern => |*pattern| {
                pattern.program.deinit(gpa);
                gpa.free(pattern.content);
            },
            .charsmap => |*map| map.deinit(gpa),
            .form, .lower, .strip, .squeeze => {},
        }
    }

    /// Writes the new form of `output.old`, and returns whether it differs.
    fn write(self: *const Step, output: *Output) error{OutOfMemory}!bool {
        return switch (self.*) {
            .form => |form| forms.write(form, output),
            .lower => lower.write(output),
            .prepend => |text| edges.prepend(text, output),
            .literal => |texts| replace.literally(texts.match, texts.content, output),
            .pattern => |*pattern| replace.matches(&pattern.program, pattern.content, output),
            .strip => |sides| edges.strip(sides.left, sides.right, output),
            .charsmap => |*map| map.write(output),
            .squeeze => edges.squeeze(output),
        };
    }

    /// Whether the step transforms each character independently.
    fn isOfCharacters(self: *const Step) bool {
        return switch (self.*) {
            .lower => true,
            .literal => |texts| texts.content.len > 0 and
                unicode.decode(texts.match, 0).len == texts.match.len,
            .form, .prepend, .pattern, .strip, .charsmap, .squeeze => false,
        };
    }
};

pub const Steps = struct {
    steps: []Step,

    /// Reads packed steps, which src/tokenmill/formats/build.py writes.
    pub fn init(gpa: Allocator, packed_steps: []const u8) Error!Steps {
        @setRuntimeSafety(true);
        var steps: std.ArrayList(Step) = .empty;
        errdefer {
            for (steps.items) |*step| step.deinit(gpa);
            steps.deinit(gpa);
        }
        var reader: Reader = .{ .bytes = packed_steps };
        while (reader.bytes.len > 0) {
            try steps.ensureUnusedCapacity(gpa, 1);
            steps.appendAssumeCapacity(try reader.take(gpa));
        }
        return .{ .steps = try steps.toOwnedSlice(gpa) };
    }

    pub fn deinit(self: *Steps, gpa: Allocator) void {
        for (self.steps) |*step| step.deinit(gpa);
        gpa.free(self.steps);
        self.* = undefined;
    }

    pub fn isEmpty(self: *const Steps) bool {
        return self.steps.len == 0;
    }

    /// Whether a text can be normalized in chunks split by `beginsPart`. The steps must be Unicode
    /// forms followed by steps that transform each character independently.
    pub fn haveParts(self: *const Steps) bool {
        for (self.steps[self.formCount()..]) |*step| if (!step.isOfCharacters()) return false;
        return true;
    }

    fn formCount(self: *const Steps) usize {
        for (self.steps, 0..) |step, index| if (step != .form) return index;
        return self.steps.len;
    }

    /// Whether a chunk may begin with the character at `index`: the text before it is then
    /// unaffected by any text after it.
    pub fn beginsPart(self: *const Steps, text: []const u8, index: usize) bool {
        const char = unicode.decode(text, index);
        // Invalid UTF-8 may be an incomplete character.
        if (char.code_point == unicode.replacement) return false;
        for (self.steps[0..self.formCount()]) |step| {
            if (!forms.isPlain(step.form, char.code_point)) return false;
        }
        return true;
    }

    /// Returns the normalized text, owned by the caller. Null if the steps do not change the text;
    /// then it is not copied.
    pub fn apply(
        self: *const Steps,
        gpa: Allocator,
        text: []const u8,
        with_places: bool,
    ) error{OutOfMemory}!?Normal {
        var current: ?Normal = null;
        errdefer if (current) |*normal| normal.deinit(gpa);
        for (self.steps) |*step| {
            const next = try applyStep(step, gpa, text, current, with_places) orelse continue;
            if (current) |*before| before.deinit(gpa);
            current = next;
        }
        return current;
    }
};

fn applyStep(
    step: *const Step,
    gpa: Allocator,
    text: []const u8,
    current: ?Normal,
    with_places: bool,
) error{OutOfMemory}!?Normal {
    var output: Output = .{
        .gpa = gpa,
        .first = text,
        .old = if (current) |before| before.bytes else text,
        .with_places = with_places,
    };
    if (with_places) if (current) |before| {
        output.old_places = .{ .runs = before.places };
    };
    defer output.deinit();
    if (!try step.write(&output)) return null;
    const bytes = try output.bytes.toOwnedSlice(gpa);
    errdefer gpa.free(bytes);
    return .{ .bytes = bytes, .places = try output.places.list.toOwnedSlice(gpa) };
}

/// The same numbers as in the packing code.
const Tag = enum(u8) { form, lower, prepend, literal, pattern, strip, charsmap, squeeze };

const Reader = struct {
    bytes: []const u8,

    const header_bytes = 12;

    /// Reads a header (tag, flags, two unused bytes, the lengths of two strings) and the strings.
    fn take(self: *Reader, gpa: Allocator) Error!Step {
        @setRuntimeSafety(true);
        if (self.bytes.len < header_bytes) return error.InvalidSteps;
        const header = self.bytes[0..header_bytes];
        const tag = std.enums.fromInt(Tag, header[0]) orelse return error.InvalidSteps;
        const flags = header[1];
        const first_len = std.mem.readInt(u32, header[4..8], .little);
        const second_len = std.mem.readInt(u32, header[8..12], .little);
        const rest = self.bytes[header_bytes..];
        // Two lengths of 32 bits can exceed 32 bits together.
        if (@as(u64, first_len) + second_len > rest.len) return error.InvalidSteps;
        const first, const others = .{ rest[0..first_len], rest[first_len..] };
        self.bytes = others[second_len..];
        return read(gpa, tag, flags, first, others[0..second_len]);
    }

    fn read(gpa: Allocator, tag: Tag, flags: u8, first: []const u8, second: []const u8) Error!Step {
        @setRuntimeSafety(true);
        switch (tag) {
            .form => return .{
                .form = std.enums.fromInt(forms.Form, flags) orelse return error.InvalidSteps,
            },
            .lower => return .lower,
            .prepend => return .{ .prepend = try gpa.dupe(u8, first) },
            .strip => return .{ .strip = .{ .left = flags & 1 != 0, .right = flags & 2 != 0 } },
            .squeeze => return .squeeze,
            .charsmap => return .{ .charsmap = try .init(gpa, first, flags & 1 != 0) },
            .literal => {
                if (first.len == 0) return error.InvalidSteps;
                const match = try gpa.dupe(u8, first);
                errdefer gpa.free(match);
                return .{ .literal = .{ .match = match, .content = try gpa.dupe(u8, second) } };
            },
            .pattern => {
                const content = try gpa.dupe(u8, second);
                errdefer gpa.free(content);
                const made = Program.init(gpa, first);
                const program = made catch |failure| return switch (failure) {
                    error.OutOfMemory => error.OutOfMemory,
                    error.InvalidProgram => error.InvalidSteps,
                };
                return .{ .pattern = .{ .program = program, .content = content } };
            },
        }
    }
};

test {
    _ = forms;
    _ = @import("normalize/output.zig");
}

fn expectNormal(packed_steps: []const u8, text: []const u8, wanted: ?[]const u8) !void {
    const gpa = std.testing.allocator;
    var steps: Steps = try .init(gpa, packed_steps);
    defer steps.deinit(gpa);
    for ([_]bool{ false, true }) |with_places| {
        var normal = try steps.apply(gpa, text, with_places) orelse {
            try std.testing.expectEqual(wanted, null);
            continue;
        };
        defer normal.deinit(gpa);
        try std.testing.expectEqualStrings(wanted.?, normal.bytes);
        try std.testing.expectEqual(with_places, normal.places.len > 0);
    }
}

// Prepend "▁", replace " " with "▁", lower case.
const sample_steps = "\x02\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\u{2581}" ++
    "\x03\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00 \u{2581}" ++
    "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";

test "normal: steps run in order, and unchanged text is not copied" {
    try expectNormal("", "A b", null);
    try expectNormal(sample_steps, "", null);
    try expectNormal(sample_steps, "A b", "\u{2581}a\u{2581}b");
    try expectNormal(sample_steps[sample_steps.len - 12 ..], "a b \u{e9}", null);
    try std.testing.expectError(
        error.InvalidSteps,
        Steps.init(std.testing.allocator, sample_steps[0..14]),
    );
    // The lengths add up to 4 GiB and 10 bytes, which 32 bits show as 10.
    const forged = "\x03\x00\x00\x00\x0a\x00\x00\x00\xff\xff\xff\xff" ++ "0123456789";
    try std.testing.expectError(error.InvalidSteps, Steps.init(std.testing.allocator, forged));
}

test "normal: running out of memory leaks no memory" {
    const apply = struct {
        fn apply(gpa: Allocator, text: []const u8) !void {
            const nfc = [_]u8{0} ** 12;
            var steps: Steps = try .init(gpa, sample_steps ++ nfc);
            defer steps.deinit(gpa);
            var normal = try steps.apply(gpa, text, true) orelse return;
            normal.deinit(gpa);
        }
    }.apply;
    try std.testing.checkAllAllocationFailures(
        std.testing.allocator,
        apply,
        .{"A be\u{301} c\u{327}\u{301} " ** 9},
    );
}
