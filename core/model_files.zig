//! Hugging Face files → tokens and merges, the two large parts of them.
//!
//! A tokenizer.json of 11 MB consists of 150,000 tokens by text, as many merges of token texts, and
//! three kilobytes of other data. Only the first two are read here. The rest, with `{}` and `[]`
//! instead of them, is left to an ordinary JSON parser. A hash table converts merges to token
//! indices, so no other code has to look them up.
//!
//! **Invariant** for any input, tokens are distinct, ids are distinct, every id is below
//! `id_limit`, and every merge consists of two tokens that are not empty.

const std = @import("std");
const examples = @import("examples.zig").examples;
const Allocator = std.mem.Allocator;
const Failure = @import("failure.zig").Failure;
const json = @import("json.zig");
const vocabularies = @import("vocabulary.zig");
const TokenTable = @import("vocabulary/token_table.zig").TokenTable;
pub const spelling = @import("model_files/byte_level.zig");

const tokens_max = 1 << 20;
const merges_max = 1 << 22;
const bytes_max = 1 << 30;

pub const Error = error{ OutOfMemory, InvalidFile };

/// The error in a file, and its location.
pub const Report = struct {
    part: []const u8 = "",
    problem: []const u8 = "",
    place: Place = .none,
    /// The token that the error concerns, if there is one, truncated if it is long.
    name_buffer: [60]u8 = undefined,
    name_len: usize = 0,

    pub const Place = union(enum) { none, byte: usize, line: usize, entry: usize };

    pub fn name(self: *const Report) []const u8 {
        return self.name_buffer[0..self.name_len];
    }

    fn setName(self: *Report, bytes: []const u8) void {
        if (!std.unicode.utf8ValidateSlice(bytes)) return;
        var len = @min(bytes.len, self.name_buffer.len);
        // Not inside a character.
        while (len < bytes.len and len > 0 and bytes[len] & 0xc0 == 0x80) len -= 1;
        @memcpy(self.name_buffer[0..len], bytes[0..len]);
        self.name_len = len;
    }
};

/// Returns the reason for a file that cannot be read.
pub fn failureOf(failure: Error, report: *const Report) Failure {
    if (failure == error.OutOfMemory) return .out_of_memory;
    var place_buffer: [40]u8 = undefined;
    const place = switch (report.place) {
        .none => "",
        .byte => |at| std.fmt.bufPrint(&place_buffer, "byte {d}", .{at}) catch unreachable,
        .line => |at| std.fmt.bufPrint(&place_buffer, "line {d}", .{at}) catch unreachable,
        .entry => |at| std.fmt.bufPrint(&place_buffer, "merge {d}", .{at}) catch unreachable,
    };
    const has_place = place.len > 0;
    const has_part = report.part.len > 0;
    return .init(.vocabulary, "{s}{s}{s}{s}{s}{s}{s}", .{
        report.part,
        if (has_part and has_place) ", " else "",
        place,
        if (has_part or has_place) ": " else "",
        report.problem,
        if (report.name_len > 0) ": " else "",
        report.name(),
    });
}

/// The contents of a file, owned by the caller.
pub const Found = struct {
    /// The JSON around tokens and merges.
    rest: []u8 = &.{},
    /// The token texts, concatenated, in the order of the file.
    bytes: []u8 = &.{},
    lengths: []u32 = &.{},
    ids: []u32 = &.{},
    /// Two token indices for each merge.
    merges: []u32 = &.{},
    /// The index of the first merge that produces no token.
    unmade: ?u32 = null,

    pub fn deinit(self: *Found, gpa: Allocator) void {
        gpa.free(self.rest);
        gpa.free(self.bytes);
        gpa.free(self.lengths);
        gpa.free(self.ids);
        gpa.free(self.merges);
    }
};

/// Reads the model of a tokenizer.json. A part of unexpected type stays in `rest`.
pub fn readModel(gpa: Allocator, text: []const u8, seed: u64, report: *Report) Error!Found {
    var reader: Reader = .init(gpa, text, seed, report);
    defer reader.deinit();
    reader.readDocument() catch |failure| return reader.explain(failure);
    return reader.finish();
}

/// Reads a vocab.json with its merges.txt.
pub fn readFiles(
    gpa: Allocator,
    vocabulary: []const u8,
    merges: []const u8,
    seed: u64,
    report: *Report,
) Error!Found {
    @setRuntimeSafety(true);
    var reader: Reader = .init(gpa, vocabulary, seed, report);
    defer reader.deinit();
    reader.readFiles(merges) catch |failure| return reader.explain(failure);
    return reader.finish();
}

const Cut = struct { start: usize, end: usize, left: []const u8 };

const Reader = struct {
    gpa: Allocator,
    scanner: json.Scanner,
    seed: u64,
    report: *Report,
    bytes: std.ArrayList(u8) = .empty,
    /// The start of each token, and the end of the last one.
    offsets: std.ArrayList(u32) = .empty,
    ids: std.ArrayList(u32) = .empty,
    merges: std.ArrayList(u32) = .empty,
    unmade: ?u32 = null,
    table: TokenTable = .empty,
    /// The string that was read last.
    word: std.ArrayList(u8) = .empty,
    vocabulary: ?Cut = null,
    merges_cut: ?Cut = null,
    model_is_read: bool = false,

    const ReadError = json.Error || error{InvalidFile};

    fn init(gpa: Allocator, text: []const u8, seed: u64, report: *Report) Reader {
        return .{ .gpa = gpa, .scanner = .{ .text = text }, .seed = seed, .report = report };
    }

    fn deinit(self: *Reader) void {
        self.bytes.deinit(self.gpa);
        self.offsets.deinit(self.gpa);
        self.ids.deinit(self.gpa);
        self.merges.deinit(self.gpa);
        self.word.deinit(self.gpa);
        self.table.deinit(self.gpa);
    }

    fn explain(self: *Reader, failure: ReadError) Error {
        if (failure == error.InvalidJson) {
            self.report.problem = self.scanner.problem;
            self.report.place = .{ .byte = self.scanner.at };
        }
        return if (failure == error.OutOfMemory) error.OutOfMemory else error.InvalidFile;
    }

    fn refuse(self: *Reader, place: Report.Place, name: []const u8, problem: []const u8) Error {
        self.report.problem = problem;
        self.report.place = place;
        self.report.setName(name);
        return error.InvalidFile;
    }

    fn readDocument(self: *Reader) ReadError!void {
        @setRuntimeSafety(true);
        const scanner = &self.scanner;
        try scanner.expect('{');
        var is_first = true;
        while (try scanner.more('}', &is_first)) {
            const key = try self.readKey();
            if (std.mem.eql(u8, key, "model") and scanner.peek() == '{') {
                if (self.model_is_read) return scanner.fail("duplicate key 'model'");
                self.model_is_read = true;
                try self.readParts();
            } else {
                try scanner.skip(1);
            }
        }
        try scanner.end();
        const cut = self.merges_cut orelse return;
        // Merges listed before the tokens are read after them.
        if (self.vocabulary != null and cut.left.len == 0) {
            scanner.at = cut.start;
            self.merges_cut.?.left = "[]";
            try self.readMerges();
        }
    }

    fn readKey(self: *Reader) ReadError![]const u8 {
        @setRuntimeSafety(true);
        self.word.clearRetainingCapacity();
        try self.scanner.string(self.gpa, &self.word);
        try self.scanner.expect(':');
        return self.word.items;
    }

    fn readParts(self: *Reader) ReadError!void {
        @setRuntimeSafety(true);
        const scanner = &self.scanner;
        try scanner.expect('{');
        var is_first = true;
        while (try scanner.more('}', &is_first)) {
            const key = try self.readKey();
            const first = scanner.peek();
            const start = scanner.at;
            if (std.mem.eql(u8, key, "vocab") and first == '{') {
                if (self.vocabulary != null) return scanner.fail("duplicate key 'vocab'");
                try self.readTokens("model.vocab");
                self.report.part = "";
                self.vocabulary = .{ .start = start, .end = scanner.at, .left = "{}" };
            } else if (std.mem.eql(u8, key, "merges") and first == '[') {
                if (self.merges_cut != null) return scanner.fail("duplicate key 'merges'");
                const is_ready = self.vocabulary != null;
                if (is_ready) try self.readMerges() else try scanner.skip(2);
                self.report.part = "";
                const left = if (is_ready) "[]" else "";
                self.merges_cut = .{ .start = start, .end = scanner.at, .left = left };
            } else {
                try scanner.skip(2);
            }
        }
    }

    fn readTokens(self: *Reader, part: []const u8) ReadError!void {
        @setRuntimeSafety(true);
        self.report.part = part;
        const scanner = &self.scanner;
        try self.offsets.append(self.gpa, 0);
        try scanner.expect('{');
        var is_first = true;
        while (try scanner.more('}', &is_first)) {
            if (self.ids.items.len == tokens_max) return scanner.fail("too many tokens");
            const start = self.bytes.items.len;
            try scanner.string(self.gpa, &self.bytes);
            const token = self.bytes.items[start..];
            const len_max = vocabularies.token_len_limit;
            if (token.len > len_max) return scanner.fail("token is too long");
            if (self.bytes.items.len > bytes_max) return scanner.fail("tokens exceed 1 GiB");
            if (!isUtf8(token)) return scanner.fail("token is not valid UTF-8");
            try self.offsets.append(self.gpa, @intCast(self.bytes.items.len));
            try scanner.expect(':');
            try self.ids.append(self.gpa, try scanner.whole(vocabularies.id_limit - 1));
        }
        try self.index();
    }

    pub inline fn tokenBytes(self: *const Reader, place: u32) []const u8 {
        return self.bytes.items[self.offsets.items[place]..self.offsets.items[place + 1]];
    }

    /// Builds the token table, and rejects duplicate token texts and ids.
    fn index(self: *Reader) ReadError!void {
        @setRuntimeSafety(true);
        const count = self.ids.items.len;
        self.table = try .init(self.gpa, count, self.seed);
        const seen = try self.gpa.alloc(u64, vocabularies.id_limit / 64 + 1);
        defer self.gpa.free(seen);
        @memset(seen, 0);
        var hashes: [16]u64 = undefined;
        for (0..@min(count, hashes.len)) |place| {
            hashes[place] = self.table.prepare(self.tokenBytes(@intCast(place)));
        }
        for (self.ids.items, 0..) |id, place| {
            const token = self.tokenBytes(@intCast(place));
            if (!self.table.put(self, token, @intCast(place), hashes[place % hashes.len])) {
                return self.refuse(.none, token, "duplicate token");
            }
            const bit = @as(u64, 1) << @intCast(id % 64);
            if (seen[id / 64] & bit != 0) {
                return self.refuse(.none, token, "duplicate id of token");
            }
            seen[id / 64] |= bit;
            const next = place + hashes.len;
            if (next < count) {
                hashes[place % hashes.len] = self.table.prepare(self.tokenBytes(@intCast(next)));
            }
        }
    }

    fn readMerges(self: *Reader) ReadError!void {
        @setRuntimeSafety(true);
        self.report.part = "model.merges";
        const scanner = &self.scanner;
        try scanner.expect('[');
        var is_first = true;
        var form: ?u8 = null;
        while (try scanner.more(']', &is_first)) {
            const first = scanner.peek() orelse return scanner.fail("expected a merge");
            if (form == null) form = first;
            if (first != form.?) return scanner.fail("merges must be all strings or all arrays");
            const place: Report.Place = .{ .entry = self.merges.items.len / 2 };
            self.word.clearRetainingCapacity();
            switch (first) {
                '"' => {
                    try scanner.string(self.gpa, &self.word);
                    try self.enterLine(place);
                },
                '[' => {
                    scanner.at += 1;
                    try scanner.string(self.gpa, &self.word);
                    const left_len = self.word.items.len;
                    try scanner.expect(',');
                    try scanner.string(self.gpa, &self.word);
                    try scanner.expect(']');
                    try self.enter(left_len, place);
                },
                else => return scanner.fail("a merge must be a string or an array of two strings"),
            }
        }
    }

    fn readFiles(self: *Reader, merges: []const u8) ReadError!void {
        @setRuntimeSafety(true);
        try self.readTokens("vocab.json");
        try self.scanner.end();
        self.report.part = "merges.txt";
        var lines = std.mem.splitScalar(u8, merges, '\n');
        var number: usize = 0;
        while (lines.next()) |line| {
            number += 1;
            if (line.len == 0 and lines.peek() == null) break;
            const is_windows = std.mem.endsWith(u8, line, "\r");
            self.word.clearRetainingCapacity();
            try self.word.appendSlice(self.gpa, line[0 .. line.len - @intFromBool(is_windows)]);
            try self.enterLine(.{ .line = number });
        }
    }

    /// Adds the merge "left right" in `word`.
    fn enterLine(self: *Reader, place: Report.Place) ReadError!void {
        @setRuntimeSafety(true);
        const line = self.word.items;
        if (std.mem.startsWith(u8, line, "#version")) return;
        const blank = std.mem.indexOfScalar(u8, line, ' ');
        if (blank == null or std.mem.indexOfScalarPos(u8, line, blank.? + 1, ' ') != null) {
            return self.refuse(place, line, "a merge must be two tokens separated by one space");
        }
        _ = self.word.orderedRemove(blank.?);
        try self.enter(blank.?, place);
    }

    /// Adds the merge in `word`, whose first token has `left_len` bytes.
    fn enter(self: *Reader, left_len: usize, place: Report.Place) ReadError!void {
        @setRuntimeSafety(true);
        const word = self.word.items;
        if (self.merges.items.len == 2 * merges_max) {
            return self.refuse(place, "", "too many merges");
        }
        for ([_][]const u8{ word[0..left_len], word[left_len..] }) |part| {
            if (part.len == 0) return self.refuse(place, word, "one side of the merge is empty");
            const found = self.table.get(self, part) orelse
                return self.refuse(place, part, "token of the merge not found in the vocabulary");
            try self.merges.append(self.gpa, found);
        }
        if (self.unmade == null and self.table.get(self, word) == null) {
            self.unmade = @intCast(self.merges.items.len / 2 - 1);
        }
    }

    fn finish(self: *Reader) Error!Found {
        @setRuntimeSafety(true);
        var found: Found = .{ .unmade = self.unmade };
        errdefer found.deinit(self.gpa);
        found.rest = try self.makeRest();
        found.lengths = try self.gpa.alloc(u32, self.ids.items.len);
        for (found.lengths, 0..) |*length, place| {
            length.* = self.offsets.items[place + 1] - self.offsets.items[place];
        }
        found.bytes = try self.bytes.toOwnedSlice(self.gpa);
        found.ids = try self.ids.toOwnedSlice(self.gpa);
        found.merges = try self.merges.toOwnedSlice(self.gpa);
        return found;
    }

    fn makeRest(self: *Reader) Error![]u8 {
        @setRuntimeSafety(true);
        var cuts: [2]Cut = undefined;
        var count: usize = 0;
        for ([_]?Cut{ self.vocabulary, self.merges_cut }) |found| {
            const cut = found orelse continue;
            if (cut.left.len == 0) continue;
            cuts[count] = cut;
            count += 1;
        }
        if (count == 2 and cuts[1].start < cuts[0].start) std.mem.swap(Cut, &cuts[0], &cuts[1]);
        var rest: std.ArrayList(u8) = .empty;
        errdefer rest.deinit(self.gpa);
        var start: usize = 0;
        for (cuts[0..count]) |cut| {
            try rest.appendSlice(self.gpa, self.scanner.text[start..cut.start]);
            try rest.appendSlice(self.gpa, cut.left);
            start = cut.end;
        }
        try rest.appendSlice(self.gpa, self.scanner.text[start..]);
        return rest.toOwnedSlice(self.gpa);
    }
};

/// Fast path: tokens are short, and most of them ASCII.
inline fn isUtf8(token: []const u8) bool {
    for (token) |byte| {
        if (byte >= 0x80) return std.unicode.utf8ValidateSlice(token);
    }
    return true;
}

test {
    _ = json;
    _ = spelling;
}

const sample =
    \\{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0, "b": 5, "\u00e9": 2,
    \\ "ab": 3, "abé": 4}, "merges": [["a", "b"], ["ab", "é"]], "x": [1]},
    \\ "y": null}
;

fn expectFound(text: []const u8, rest: []const u8, merges: []const u32) !void {
    const gpa = std.testing.allocator;
    var report: Report = .{};
    var found = try readModel(gpa, text, 7, &report);
    defer found.deinit(gpa);
    try std.testing.expectEqualStrings(rest, found.rest);
    try std.testing.expectEqualSlices(u32, merges, found.merges);
}

test "files: tokens and merges are extracted from a tokenizer.json" {
    const gpa = std.testing.allocator;
    var report: Report = .{};
    var found = try readModel(gpa, sample, 7, &report);
    defer found.deinit(gpa);
    try std.testing.expectEqualStrings("abéababé", found.bytes);
    try std.testing.expectEqualSlices(u32, &.{ 1, 1, 2, 2, 4 }, found.lengths);
    try std.testing.expectEqualSlices(u32, &.{ 0, 5, 2, 3, 4 }, found.ids);
    try std.testing.expectEqualSlices(u32, &.{ 0, 1, 3, 2 }, found.merges);
    try std.testing.expectEqual(null, found.unmade);
    const rest =
        \\{"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": [], "x": [1]},
        \\ "y": null}
    ;
    try std.testing.expectEqualStrings(rest, found.rest);
}

test "files: merges may come first and as strings, and other parts stay in the rest" {
    const tokens = "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}";
    try expectFound(
        "{\"model\":{\"merges\":[\"#version\",\"a b\"]," ++ tokens ++ "}}",
        "{\"model\":{\"merges\":[],\"vocab\":{}}}",
        &.{ 0, 1 },
    );
    const unigram = "{\"model\":{\"vocab\":[[\"a\",0.5]]}}";
    try expectFound(unigram, unigram, &.{});
    try expectFound("{\"model\":{\"merges\":[1]}}", "{\"model\":{\"merges\":[1]}}", &.{});
    try expectFound("{\"vocab\":{\"a\":0}}", "{\"vocab\":{\"a\":0}}", &.{});
    try expectFound("{\"model\":null}", "{\"model\":null}", &.{});
}

test "files: vocab.json and merges.txt give tokens and merges" {
    const gpa = std.testing.allocator;
    var report: Report = .{};
    const tokens = "{\"a\":0,\"b\":1,\"ab\":2}";
    for ([_][]const u8{ "#version: 0.2\na b\n", "a b", "a b\r\n" }) |merges| {
        var found = try readFiles(gpa, tokens, merges, 7, &report);
        defer found.deinit(gpa);
        try std.testing.expectEqualSlices(u32, &.{ 0, 1 }, found.merges);
    }
    for ([_][]const u8{ "a b\n\n", "a  b", "a b c", "ab", "a c", " a" }) |merges| {
        const found = readFiles(gpa, tokens, merges, 7, &report);
        try std.testing.expectError(error.InvalidFile, found);
    }
    try std.testing.expectEqualStrings("merges.txt", report.part);
    try std.testing.expectEqual(Report.Place{ .line = 1 }, report.place);
}

fn readAll(gpa: Allocator, text: []const u8) !void {
    var report: Report = .{};
    var found = readModel(gpa, text, 7, &report) catch |failure| switch (failure) {
        error.InvalidFile => return std.testing.expect(report.problem.len > 0),
        error.OutOfMemory => return failure,
    };
    found.deinit(gpa);
}

test "files: damaged files are rejected or read, without other failures" {
    const gpa = std.testing.allocator;
    for (0..sample.len) |len| {
        var report: Report = .{};
        try std.testing.expectError(error.InvalidFile, readModel(gpa, sample[0..len], 7, &report));
    }
    var random: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const rng = random.random();
    var text: [sample.len]u8 = undefined;
    for (0..examples(20_000)) |_| {
        @memcpy(&text, sample);
        for (0..rng.intRangeAtMost(u32, 1, 4)) |_| {
            const at = rng.uintLessThan(usize, text.len);
            const other = sample[rng.uintLessThan(usize, text.len)];
            text[at] = if (rng.boolean()) other else text[at] ^ (@as(u8, 1) << rng.int(u3));
        }
        try readAll(gpa, &text);
    }
}

test "files: running out of memory leaks no memory" {
    try std.testing.checkAllAllocationFailures(std.testing.allocator, readAll, .{sample});
}
