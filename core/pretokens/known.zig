//! A growing text → its runs, which are not scanned again from their start.
//!
//! The hand-written scanners search for the end of a run of one class, and so do the loops of a
//! program. For each class or loop the last long run is cached, without its last bytes, because the
//! text after them may change.
//!
//! **Invariant** a cached run ends at least `margin` bytes before the text that may change.

const std = @import("std");
const examples = @import("../examples.zig").examples;
const Allocator = std.mem.Allocator;
const runs = @import("runs.zig");
const LoopCache = @import("../pattern/memory.zig").LoopCache;
const Matcher = @import("../pattern/matcher.zig").Matcher;
const unbounded = @import("../pattern/program.zig").unbounded;
const unicode = @import("../unicode.zig");

/// Enough bytes for the last character of a run, and for the character that ends the run.
const margin = 8;

/// A shorter run is scanned faster than cached.
const len_min = 256;

/// `marked` is a letter or a mark, and `unmarked` an `other` that is not a mark. `digit` has the
/// numbers of Unicode 17, and `undigit` is an `other` that is not one. `point` is Hugging Face's
/// punctuation, and `unpoint` an `other` that is not. `latin` is an ASCII letter. The `han` kinds
/// and the `plain` kinds, which are not Han, are words (letters and marks), symbols or the rest.
pub const Kind = enum {
    letter,
    number,
    other,
    marked,
    unmarked,
    space,
    upper,
    lower,
    newline,
    digit,
    undigit,
    point,
    unpoint,
    latin,
    plain_word,
    plain_symbol,
    plain_rest,
    han_word,
    han_symbol,
    han_rest,
};

/// The end of a run, and the end of its last character with the special property of its kind (0 if
/// it has none): a newline in whitespace, [L] in [U].
pub const Found = struct { end: usize, mark_end: usize = 0 };

const Run = struct { start: usize = 0, end: usize = 0, mark_end: usize = 0 };

pub const Known = struct {
    runs: std.EnumArray(Kind, Run) = .initFill(.{}),
    /// The pretoken without a split point so far, for safe.zig and similar scanners.
    uncut: Run = .{},
    loops: []LoopCache = &.{},

    pub fn deinit(self: *Known, gpa: Allocator) void {
        gpa.free(self.loops);
    }

    /// Returns the run of a kind from `index`, which may be empty.
    pub fn scan(self: *Known, text: []const u8, index: usize, comptime kind: Kind) Found {
        const run = self.runs.getPtr(kind);
        const goes_on = run.start <= index and index < run.end and run.end + margin <= text.len;
        var found: Found = .{ .end = if (goes_on) run.end else index };
        if (goes_on and run.mark_end > index) found.mark_end = run.mark_end;
        var sure = found;
        while (found.end < text.len) {
            const next = runs.step(text, found.end);
            if (!runs.is(kind, next)) break;
            found.end = next.end;
            if (hasMark(kind, next.class)) found.mark_end = next.end;
            if (found.end + margin <= text.len) sure = found;
        }
        if (sure.end - index >= len_min) {
            if (!goes_on) run.* = .{ .start = index };
            run.end = sure.end;
            run.mark_end = @max(run.mark_end, sure.mark_end);
        }
        return found;
    }

    /// Returns the offset up to which the pretoken at `start` is known to have no split point, or
    /// `start`.
    pub fn uncutFrom(self: *const Known, text: []const u8, start: usize) usize {
        const run = self.uncut;
        const is_known = run.start == start and run.end > start and run.end + margin <= text.len;
        return if (is_known) run.end else start;
    }

    /// Caches that the pretoken has no split point before `end`, a character boundary. The last
    /// `margin` bytes of the text are not cached.
    pub fn keepUncut(self: *Known, text: []const u8, start: usize, end: usize) void {
        const sure = boundaryBefore(text, @min(end, text.len -| margin));
        if (sure < start + len_min) return;
        self.uncut = .{ .start = start, .end = sure };
    }

    /// Passes the cached runs to the loops of a new matcher.
    pub fn tell(self: *Known, gpa: Allocator, matcher: *Matcher) Allocator.Error!void {
        const program = matcher.program;
        if (self.loops.len != program.loop_count) {
            const loops = try gpa.alloc(LoopCache, program.loop_count);
            @memset(loops, .{});
            gpa.free(self.loops);
            self.loops = loops;
        }
        matcher.loops = try gpa.dupe(LoopCache, self.loops);
        for (program.code) |*instruction| switch (instruction.op) {
            .loop_greedy, .loop_lazy, .loop_possessive => {
                const loop = &matcher.loops[instruction.guard_b];
                if (loop.run_end <= loop.run_start) continue;
                const is_inside = loop.run_end + margin <= matcher.text.len;
                if (!is_inside) loop.* = .{};
                if (!is_inside or instruction.b != unbounded) continue;
                loop.run_end = matcher.scanRun(instruction.set, loop.run_end, matcher.text.len);
            },
            else => {},
        };
    }

    /// Caches the final runs of a matcher that `tell` was called for.
    pub fn learn(self: *Known, matcher: *const Matcher) void {
        for (self.loops, matcher.loops) |*known, loop| {
            const sure = @min(loop.run_end, matcher.text.len -| margin);
            const end = boundaryBefore(matcher.text, sure);
            known.* = .{};
            if (end < loop.run_start + len_min) continue;
            known.run_start = loop.run_start;
            known.run_end = end;
        }
    }

    /// Drops the cached runs that a change of the text from `cut` on may affect.
    pub fn forgetFrom(self: *Known, cut: usize) void {
        for (&self.runs.values) |*run| {
            if (run.end + margin > cut) run.* = .{};
        }
        if (self.uncut.end + margin > cut) self.uncut = .{};
        for (self.loops) |*loop| {
            if (loop.run_end + margin > cut) loop.* = .{};
        }
    }
};

/// Returns the character boundary at or before `index`.
fn boundaryBefore(text: []const u8, index: usize) usize {
    if (index == text.len) return index;
    // A continuation byte without a first byte in the three bytes before it is a character itself.
    for (0..@min(index + 1, 4)) |back| {
        if (text[index - back] & 0xC0 != 0x80) return index - back;
    }
    return index;
}

inline fn hasMark(comptime kind: Kind, class: unicode.Class) bool {
    return switch (kind) {
        .space => class.newline,
        .upper => class.lower,
        else => false,
    };
}

test "known: runs of a text that changes at its end equal those of a new scan" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const parts = [_][]const u8{
        "a",        "B",       " ",        "\n",       "1",    "-",
        "\u{4f60}", "\u{e9}",  "\u{c9}",   "\xe4\xbd", "\x80", "\x80",
        "\u{a0}",   "\u{301}", "\u{200b}", "\u{30fb}",
    };
    for (0..examples(200)) |_| {
        var known: Known = .{};
        var text: std.ArrayList(u8) = .empty;
        defer text.deinit(gpa);
        for (0..24) |_| {
            const back = @min(text.items.len, random.uintLessThan(usize, 12));
            const cut = text.items.len - if (random.boolean()) 0 else back;
            text.shrinkRetainingCapacity(cut);
            known.forgetFrom(cut);
            // A long run of three fragments, or a few bytes, possibly an incomplete character.
            var some: [3][]const u8 = undefined;
            for (&some) |*part| part.* = parts[random.uintLessThan(usize, parts.len)];
            const count: usize = if (random.uintLessThan(u8, 4) == 0) 300 else 2;
            for (0..count) |_| {
                const part = some[random.uintLessThan(usize, some.len)];
                try text.appendSlice(gpa, part[0 .. 1 + random.uintLessThan(usize, part.len)]);
            }
            inline for (comptime std.enums.values(Kind)) |kind| {
                var at: usize = 0;
                while (at < text.items.len) {
                    var fresh: Known = .{};
                    const found = known.scan(text.items, at, kind);
                    try std.testing.expectEqual(fresh.scan(text.items, at, kind), found);
                    at = @max(found.end, runs.step(text.items, at).end);
                }
            }
        }
    }
}

test "known: the rest of a character may be appended later" {
    var known: Known = .{};
    const text = "-" ** 300 ++ "\xe4\xbd" ++ "\xa0" ++ "-" ** 20;
    const half = text[0..302];
    try std.testing.expectEqual(302, known.scan(half, 0, .other).end);
    known.forgetFrom(half.len);
    try std.testing.expectEqual(300, known.scan(text, 0, .other).end);
}
