//! Damaged bytes → every parser of the core, which reads or rejects them.
//!
//! An entry has one input that is right. Each round damages it and passes it to the parser, and
//! uses the result if there is one. The engines are compared with reference implementations in
//! random tests next to them. All of these tests get one seed, which `make test-core` prints and
//! which repeats a failure. `make fuzz SECONDS=600` runs them with one seed after the other.

const std = @import("std");
const Allocator = std.mem.Allocator;
const assemble = @import("pattern/assemble.zig");
const bundles = @import("bundle.zig");
const counts = @import("count.zig");
const documents = @import("documents.zig");
const examples = @import("examples.zig").examples;
const json = @import("json.zig");
const model_files = @import("model_files.zig");
const normalize = @import("normalize.zig");
const platform = @import("platform.zig");
const pretokens = @import("pretokens.zig");
const serialized = @import("pretokens/serialized.zig");
const tokenizers = @import("bundle/testing.zig");

const testing = std.testing;
const gpa = testing.allocator;

const Entry = struct {
    name: []const u8,
    /// Returns an input that is right, owned by the caller.
    input: *const fn (random: std.Random) anyerror![]u8,
    /// Parses any bytes. It returns an error only for a fault of the parser.
    use: *const fn (bytes: []u8, random: std.Random) anyerror!void,
};

const entries = [_]Entry{
    .{ .name = "bundle", .input = bundle, .use = useBundle },
    .{ .name = "image", .input = image, .use = useImage },
    .{ .name = "program", .input = program, .use = useScheme },
    .{ .name = "stages", .input = stages, .use = useScheme },
    .{ .name = "steps", .input = steps, .use = useSteps },
    .{ .name = "json", .input = document, .use = useJson },
    .{ .name = "json lines", .input = document, .use = useLines },
    .{ .name = "model files", .input = document, .use = useModel },
    .{ .name = "counts", .input = countsFile, .use = useCounts },
};

const text = "A ab cd\u{4f60}abc <a>aab<unk>\u{2581}ab \u{e9}\xff 12";

test "fuzz: damaged bytes are read or rejected" {
    var prng: std.Random.DefaultPrng = .init(testing.random_seed);
    const random = prng.random();
    for (entries) |entry| for (0..@max(1, examples(200))) |_| {
        errdefer std.debug.print("fault in the entry {s}\n", .{entry.name});
        const right = try entry.input(random);
        defer gpa.free(right);
        for (0..20) |_| {
            const bytes = try damage(right, random);
            defer gpa.free(bytes);
            try entry.use(bytes, random);
        }
    };
}

/// Returns a copy with up to four changes.
fn damage(right: []const u8, random: std.Random) ![]u8 {
    var bytes: std.ArrayList(u8) = .empty;
    errdefer bytes.deinit(gpa);
    try bytes.appendSlice(gpa, right);
    for (0..random.uintAtMost(usize, 4)) |_| {
        const len = bytes.items.len;
        if (len < 4) break;
        const at = random.uintLessThan(usize, len - 3);
        const part = bytes.items[at..];
        switch (random.uintLessThan(u8, 7)) {
            0 => part[0] = random.int(u8),
            1 => part[0] ^= @as(u8, 1) << random.int(u3),
            2 => part[0] = right[random.uintLessThan(usize, right.len)],
            3 => {
                const values = [_]u32{ 0, 1, 0x7fff_ffff, 0xffff_ffff, @intCast(len) };
                const value = values[random.uintLessThan(usize, values.len)];
                std.mem.writeInt(u32, part[0..4], value, .little);
            },
            4 => bytes.shrinkRetainingCapacity(at),
            5 => bytes.replaceRangeAssumeCapacity(at, random.uintAtMost(usize, 3), ""),
            else => {
                const start = random.uintLessThan(usize, right.len);
                const copied = right[start..][0..random.uintAtMost(usize, right.len - start)];
                try bytes.insertSlice(gpa, at, copied);
            },
        }
    }
    // In memory of its own length, so that reads after its end are detected.
    return bytes.toOwnedSlice(gpa);
}

// ── Tokenizers ───────────────────────────────────────────────────────────────────────────────────

fn bundle(random: std.Random) ![]u8 {
    const samples = &tokenizers.samples;
    const bytes = try samples[random.uintLessThan(usize, samples.len)].write(gpa);
    defer gpa.free(bytes);
    return gpa.dupe(u8, bytes);
}

fn useBundle(bytes: []u8, random: std.Random) !void {
    // With the right length and checksum, the arrays are read.
    if (bytes.len >= 16 and random.uintLessThan(u8, 8) > 0) {
        std.mem.writeInt(u32, bytes[4..8], @intCast(bytes.len), .little);
        bundles.seal(bytes);
    }
    tokenizers.use(gpa, bytes) catch |reason| if (reason != error.Rejected) return reason;
}

fn image(_: std.Random) ![]u8 {
    return gpa.dupe(u8, tokenizers.samples[0].arrays.tokens);
}

fn useImage(bytes: []u8, _: std.Random) !void {
    var sample = tokenizers.samples[0];
    sample.arrays.tokens = bytes;
    const packed_sample = try sample.write(gpa);
    defer gpa.free(packed_sample);
    tokenizers.use(gpa, packed_sample) catch |reason| if (reason != error.Rejected) return reason;
}

fn program(_: std.Random) ![]u8 {
    const sets = [_]assemble.Set{ .{ .chars = "abc" }, .{ .chars = " 12", .rest = true } };
    return assemble.assemble(gpa, &sets, &.{
        .{ .op = .split, .a = 1, .b = 4 },
        .{ .op = .loop_greedy, .set = 0, .a = 1, .b = 3 },
        .{ .op = .look_ahead, .a = 7 },
        .{ .op = .jump, .a = 5 },
        .{ .op = .char, .set = 1 },
        .{ .op = .match },
        .{ .op = .match },
        .{ .op = .match },
    });
}

fn stages(random: std.Random) ![]u8 {
    const own = try program(random);
    defer gpa.free(own);
    var head: [8]u8 = .{ 0, random.uintLessThan(u8, 5), random.uintLessThan(u8, 2), 0, 0, 0, 0, 0 };
    std.mem.writeInt(u32, head[4..8], @intCast(own.len), .little);
    const digits = "\x01\x00\x00\x00\x00\x00\x00\x00";
    return std.mem.concat(gpa, u8, &.{ serialized.stages_magic, digits, &head, own });
}

fn useScheme(bytes: []u8, _: std.Random) !void {
    var scheme = serialized.read(gpa, bytes) catch |reason| switch (reason) {
        error.OutOfMemory => return reason,
        else => return,
    };
    defer scheme.deinit(gpa);
    var pieces: pretokens.Pretokens = .init(gpa, &scheme, text);
    defer pieces.deinit();
    var end: usize = 0;
    while (try pieces.next()) |span| {
        try testing.expect(span.start >= end and span.end > span.start and span.end <= text.len);
        end = span.end;
    }
}

fn steps(_: std.Random) ![]u8 {
    return gpa.dupe(u8, tokenizers.samples[2].arrays.steps);
}

fn useSteps(bytes: []u8, random: std.Random) !void {
    var read = normalize.Steps.init(gpa, bytes) catch |reason| switch (reason) {
        error.OutOfMemory => return reason,
        error.InvalidSteps => return,
    };
    defer read.deinit(gpa);
    var normal = try read.apply(gpa, text, random.boolean()) orelse return;
    normal.deinit(gpa);
}

// ── Files ────────────────────────────────────────────────────────────────────────────────────────

fn document(_: std.Random) ![]u8 {
    return gpa.dupe(u8,
        \\{"a": [1, -2.5e3, true, null], "text": "x\u00e9\ud83d\ude00\n", "b": {}, "c": [[]],
        \\ "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}
    );
}

fn useJson(bytes: []u8, _: std.Random) !void {
    var scanner: json.Scanner = .{ .text = bytes };
    scanner.skip(0) catch return;
    scanner.end() catch return;
    // The scanner accepts invalid UTF-8.
    if (!std.unicode.utf8ValidateSlice(bytes)) return;
    try testing.expect(try std.json.validate(gpa, bytes));
}

fn useLines(bytes: []u8, random: std.Random) !void {
    for (bytes) |*byte| if (byte.* == '\n' and random.boolean()) {
        byte.* = ' ';
    };
    var found = try documents.json_lines.read(gpa, bytes, random.boolean(), "text", "model.type");
    defer found.deinit(gpa);
    for (found.spans) |span| try testing.expect(span.in(found.text) != null);
}

fn useModel(bytes: []u8, random: std.Random) !void {
    var report: model_files.Report = .{};
    const made = if (random.boolean())
        model_files.readModel(gpa, bytes, 7, &report)
    else
        model_files.readFiles(gpa, "{\"a\": 0, \"b\": 1, \"ab\": 2}", bytes, 7, &report);
    var found = made catch |reason| switch (reason) {
        error.OutOfMemory => return reason,
        error.InvalidFile => return testing.expect(report.problem.len > 0),
    };
    found.deinit(gpa);
}

/// A file of this process.
fn path(buffer: []u8, random: std.Random) ![]const u8 {
    return std.fmt.bufPrint(buffer, "build/fuzz-{x}.tmc", .{random.int(u64)});
}

fn countsFile(random: std.Random) ![]u8 {
    const lengths = [_]u32{ 1, 2, 3 };
    var inventory: counts.Inventory = try .init(gpa, lengths.len, 6);
    defer inventory.deinit(gpa);
    @memcpy(inventory.bytes, "aababc");
    @memcpy(inventory.lengths, &lengths);
    @memcpy(inventory.counts, &[_]u64{ 5, 1, 1 << 40 });
    var buffer: [64]u8 = undefined;
    const name = try path(&buffer, random);
    var report: counts.Report = .{};
    defer platform.files.delete(name);
    try counts.writeInventory(gpa, &inventory, name, "{}", &report, null);
    const file: platform.files.File = try .open(name);
    defer file.close();
    const bytes = try gpa.alloc(u8, @intCast(try file.length()));
    errdefer gpa.free(bytes);
    _ = try file.readAll(bytes, 0);
    return bytes;
}

fn useCounts(bytes: []u8, random: std.Random) !void {
    var buffer: [64]u8 = undefined;
    const name = try path(&buffer, random);
    const file: platform.files.File = try .create(name);
    defer platform.files.delete(name);
    {
        defer file.close();
        try file.writeAll(bytes, 0);
    }
    var report: counts.Report = .{};
    var reader = counts.Reader.open(gpa, name, &report) catch |reason| switch (reason) {
        error.OutOfMemory => return reason,
        else => return,
    };
    defer reader.close();
    var read = counts.readInventory(gpa, &reader, 10) catch |reason| switch (reason) {
        error.OutOfMemory => return reason,
        else => return,
    };
    read.deinit(gpa);
}
