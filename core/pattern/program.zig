//! Serialized program → executable program.
//!
//! Python (src/tokenmill/patterns) compiles patterns without a hand-written scanner to instructions
//! over classes of code points, and `matcher.zig` runs them. This file reads and checks the
//! serialized form. It also builds the tables for the matcher's two frequent lookups: the class of
//! a character, and whether a set contains a class.
//!
//! The bytes are untrusted. After `init` every index is in bounds, every cycle of instructions
//! consumes a character, and each instruction belongs to one group with one direction. So no
//! program can read out of bounds or run forever on any text. A program that our compiler did not
//! write may still match nonsense.
//!
//! **Invariant**: the class `class_count` is the edge, before the first and after the last
//! character.

const std = @import("std");

/// The operation of an instruction. src/tokenmill/patterns/program.py has the same numbers.
pub const Op = enum(u16) {
    match,
    char,
    char_behind,
    loop_greedy,
    loop_lazy,
    loop_possessive,
    split,
    jump,
    peek_ahead,
    peek_behind,
    look_ahead,
    look_ahead_not,
    look_behind,
    look_behind_not,
    atomic,
    sub_end,

    fn isLoop(op: Op) bool {
        return op == .loop_greedy or op == .loop_lazy or op == .loop_possessive;
    }

    fn isSub(op: Op) bool {
        return switch (op) {
            .look_ahead, .look_ahead_not, .look_behind, .look_behind_not, .atomic => true,
            else => false,
        };
    }

    fn isBehind(op: Op) bool {
        return op == .look_behind or op == .look_behind_not;
    }
};

pub const Instruction = struct {
    op: Op,
    /// The character set of a char, loop or peek.
    set: u16,
    /// Target of a split or jump, continuation of a look-around or atomic group, minimum count of a
    /// loop.
    a: u32,
    /// Second target of a split, maximum count of a loop.
    b: u32,
    /// The classes that may follow at `a`, or after a loop.
    guard_a: u16,
    /// The classes that may follow at `b`; for a loop, its index among the loops.
    guard_b: u16,

    /// An instruction with defaults, for tests.
    pub const Listed = struct {
        op: Op,
        set: u16 = 0,
        a: u32 = 0,
        b: u32 = 0,
        guard_a: u16 = 0,
        guard_b: u16 = 0,
    };
};

pub const unbounded = std.math.maxInt(u32);

/// Whether a byte starts a character of a set, if the byte alone decides that.
pub const Membership = enum(u8) { no, yes, decode };

pub const Error = error{ OutOfMemory, InvalidProgram };

pub const magic = "tmP1";
const header_bytes = magic.len + 5 * 4;
const instruction_bytes = 16;
const class_count_max = 4096;
const code_count_max = 1 << 16;
const entry_count_max = 256;
const block_shift = 7; // a block contains at least all of ASCII
const block_len = 1 << block_shift;
const block_count = 0x110000 >> block_shift;

pub const Program = struct {
    arena: std.heap.ArenaAllocator.State,
    code: []Instruction,
    class_count: u32,
    /// Number of 64-bit words per set.
    words: u32,
    masks: []u64,
    /// Indexed by set, for the sets of chars and loops.
    bytes: [][256]Membership,
    /// Code point >> block_shift → block; block and low bits → class.
    blocks: []u16,
    classes: []u16,
    /// The class of each ASCII character, and its entries.
    ascii_classes: [128]u16,
    ascii_entries: [128][]const u32,
    /// Class → entries that can start with it, in order of preference.
    entry_offsets: []u32,
    entries: []u32,
    loop_count: u32,
    /// Whether a match may depend on text before its start.
    looks_behind: bool,

    /// Reads and checks `bytes`, which need not outlive the call. The caller owns the program.
    pub fn init(gpa: std.mem.Allocator, bytes: []const u8) Error!Program {
        @setRuntimeSafety(true);
        var arena = std.heap.ArenaAllocator.init(gpa);
        errdefer arena.deinit();
        const allocator = arena.allocator();

        const header = try Header.read(bytes);
        var reader: Reader = .{ .bytes = bytes, .at = header_bytes };
        var program: Program = undefined;
        program.class_count = header.class_count;
        program.words = header.words();
        try program.readClasses(allocator, &reader, header.run_count);
        program.masks = try allocator.alloc(u64, header.set_count * program.words);
        for (program.masks) |*word| word.* = reader.take(u64);
        program.code = try allocator.alloc(Instruction, header.code_count);
        for (program.code) |*instruction| instruction.* = try reader.takeInstruction();
        try program.checkCode(header.set_count);
        try program.readEntries(allocator, &reader, header);
        try program.checkGroups(allocator);
        try program.buildBytes(allocator);
        program.arena = arena.state;
        return program;
    }

    pub fn deinit(self: *Program, gpa: std.mem.Allocator) void {
        self.arena.promote(gpa).deinit();
        self.* = undefined;
    }

    pub inline fn classOf(self: *const Program, code_point: u21) u32 {
        if (code_point < 0x80) return self.ascii_classes[code_point];
        const block: usize = self.blocks[code_point >> block_shift];
        return self.classes[block << block_shift | (code_point & (block_len - 1))];
    }

    pub inline fn has(self: *const Program, set: u16, class: u32) bool {
        const word = self.masks[@as(usize, set) * self.words + (class >> 6)];
        return word >> @truncate(class) & 1 != 0;
    }

    /// Returns the entries that can start with a character, in order of preference.
    pub inline fn entriesOf(self: *const Program, code_point: u21) []const u32 {
        if (code_point < 0x80) return self.ascii_entries[code_point];
        const class = self.classOf(code_point);
        return self.entries[self.entry_offsets[class]..self.entry_offsets[class + 1]];
    }

    fn readClasses(
        self: *Program,
        allocator: std.mem.Allocator,
        reader: *Reader,
        run_count: u32,
    ) Error!void {
        @setRuntimeSafety(true);
        const Run = struct { start: u32, class: u16 };
        const runs = try allocator.alloc(Run, run_count);
        for (runs, 0..) |*run, index| {
            const start = reader.take(u32);
            const class = reader.take(u32);
            const in_order = if (index == 0) start == 0 else start > runs[index - 1].start;
            if (!in_order or start >= 0x110000 or class >= self.class_count) {
                return error.InvalidProgram;
            }
            run.* = .{ .start = start, .class = @intCast(class) };
        }

        // A block within one run shares its copy with all others of that class.
        const shared = try allocator.alloc(?u16, self.class_count);
        @memset(shared, null);
        self.blocks = try allocator.alloc(u16, block_count);
        var classes: std.ArrayList(u16) = .empty;
        var current: usize = 0;
        for (self.blocks, 0..) |*block, index| {
            const start: u32 = @intCast(index << block_shift);
            while (current + 1 < runs.len and runs[current + 1].start <= start) current += 1;
            const uniform = current + 1 == runs.len or runs[current + 1].start >= start + block_len;
            if (uniform) if (shared[runs[current].class]) |found| {
                block.* = found;
                continue;
            };
            block.* = @intCast(classes.items.len >> block_shift);
            if (uniform) shared[runs[current].class] = block.*;
            var run = current;
            for (0..block_len) |low| {
                while (run + 1 < runs.len and runs[run + 1].start <= start + low) run += 1;
                try classes.append(allocator, runs[run].class);
            }
        }
        self.classes = classes.items;
        const first: usize = @as(usize, self.blocks[0]) << block_shift;
        self.ascii_classes = self.classes[first..][0..128].*;
    }

    fn readEntries(
        self: *Program,
        allocator: std.mem.Allocator,
        reader: *Reader,
        header: Header,
    ) Error!void {
        @setRuntimeSafety(true);
        const Entry = struct { pc: u32, guard: u16 };
        const all = try allocator.alloc(Entry, header.entry_count);
        for (all) |*entry| {
            const pc = reader.take(u32);
            const guard = reader.take(u32);
            if (pc >= header.code_count or guard >= header.set_count) return error.InvalidProgram;
            entry.* = .{ .pc = pc, .guard = @intCast(guard) };
        }
        self.entry_offsets = try allocator.alloc(u32, self.class_count + 1);
        var entries: std.ArrayList(u32) = .empty;
        for (0..self.class_count) |class| {
            self.entry_offsets[class] = @intCast(entries.items.len);
            for (all) |entry| {
                if (self.has(entry.guard, @intCast(class))) try entries.append(allocator, entry.pc);
            }
        }
        self.entry_offsets[self.class_count] = @intCast(entries.items.len);
        self.entries = entries.items;
        for (&self.ascii_entries, self.ascii_classes) |*found, class| {
            found.* = self.entries[self.entry_offsets[class]..self.entry_offsets[class + 1]];
        }
    }

    /// Checks that every index is in bounds and every instruction has a successor. Numbers the
    /// loops.
    fn checkCode(self: *Program, set_count: u32) Error!void {
        @setRuntimeSafety(true);
        self.loop_count = 0;
        self.looks_behind = false;
        for (self.code, 0..) |*code, pc| {
            if (code.set >= set_count or code.guard_a >= set_count or code.guard_b >= set_count) {
                return error.InvalidProgram;
            }
            if (code.op.isLoop()) {
                if (code.a > code.b or code.b == 0) return error.InvalidProgram;
                code.guard_b = @intCast(self.loop_count);
                self.loop_count += 1;
            }
            switch (code.op) {
                .char_behind, .peek_behind => self.looks_behind = true,
                else => {},
            }
            for (self.successors(pc).slice()) |target| {
                if (target >= self.code.len) return error.InvalidProgram;
            }
        }
    }

    const Successors = struct {
        targets: [2]usize,
        count: u2,

        fn slice(self: *const Successors) []const usize {
            return self.targets[0..self.count];
        }
    };

    /// Returns the instructions that can run after `pc`, with or without consuming a character. For
    /// a group these are its body and the instruction after it.
    fn successors(self: *const Program, pc: usize) Successors {
        @setRuntimeSafety(true);
        const code = self.code[pc];
        return switch (code.op) {
            .match, .sub_end => .{ .targets = undefined, .count = 0 },
            .split => .{ .targets = .{ code.a, code.b }, .count = 2 },
            .jump => .{ .targets = .{ code.a, 0 }, .count = 1 },
            .look_ahead, .look_ahead_not, .look_behind, .look_behind_not, .atomic => .{
                .targets = .{ pc + 1, code.a },
                .count = 2,
            },
            else => .{ .targets = .{ pc + 1, 0 }, .count = 1 },
        };
    }

    /// Checks that every instruction belongs to one group and moves in its direction, and that
    /// every cycle of instructions consumes text.
    fn checkGroups(self: *const Program, allocator: std.mem.Allocator) Error!void {
        @setRuntimeSafety(true);
        const none = std.math.maxInt(u32);
        const top = none - 1;
        // The instruction that opens the group of each instruction.
        const owners = try allocator.alloc(u32, self.code.len);
        @memset(owners, none);
        var pending: std.ArrayList(u32) = .empty;
        for (self.entries) |entry| {
            if (owners[entry] == none) try pending.append(allocator, entry);
            owners[entry] = top;
        }
        while (pending.pop()) |pc| {
            const code = self.code[pc];
            const owner = owners[pc];
            const behind = owner != top and self.code[owner].op.isBehind();
            switch (code.op) {
                .match => if (owner != top) return error.InvalidProgram,
                .sub_end => if (owner == top) return error.InvalidProgram,
                .char_behind => if (!behind) return error.InvalidProgram,
                .char, .loop_greedy, .loop_lazy, .loop_possessive, .atomic => {
                    if (behind) return error.InvalidProgram;
                },
                else => {},
            }
            for (self.successors(pc).slice(), 0..) |target, index| {
                const wanted = if (code.op.isSub() and index == 0) pc else owner;
                if (owners[target] == none) {
                    owners[target] = wanted;
                    try pending.append(allocator, @intCast(target));
                } else if (owners[target] != wanted) {
                    return error.InvalidProgram;
                }
            }
        }
        try self.checkProgress(allocator, owners);
    }

    /// Sorts the instructions topologically by the steps that consume no text. That succeeds
    /// exactly if those steps form no cycle.
    fn checkProgress(
        self: *const Program,
        allocator: std.mem.Allocator,
        owners: []const u32,
    ) Error!void {
        @setRuntimeSafety(true);
        const counts = try allocator.alloc(u32, self.code.len);
        @memset(counts, 0);
        for (0..self.code.len) |pc| {
            for (self.stillSuccessors(pc, owners).slice()) |target| counts[target] += 1;
        }
        var ready: std.ArrayList(u32) = .empty;
        for (counts, 0..) |count, pc| {
            if (count == 0) try ready.append(allocator, @intCast(pc));
        }
        var sorted: usize = 0;
        while (ready.pop()) |pc| : (sorted += 1) {
            for (self.stillSuccessors(pc, owners).slice()) |target| {
                counts[target] -= 1;
                if (counts[target] == 0) try ready.append(allocator, @intCast(target));
            }
        }
        if (sorted != self.code.len) return error.InvalidProgram;
    }

    fn stillSuccessors(self: *const Program, pc: usize, owners: []const u32) Successors {
        @setRuntimeSafety(true);
        const code = self.code[pc];
        const nothing: Successors = .{ .targets = undefined, .count = 0 };
        return switch (code.op) {
            .char, .char_behind => nothing,
            .loop_greedy, .loop_lazy, .loop_possessive => if (code.a > 0)
                nothing
            else
                self.successors(pc),
            .atomic => .{ .targets = .{ pc + 1, 0 }, .count = 1 },
            // An atomic group consumes its text; a look-around does not.
            .sub_end => if (owners[pc] < self.code.len and self.code[owners[pc]].op == .atomic)
                .{ .targets = .{ self.code[owners[pc]].a, 0 }, .count = 1 }
            else
                nothing,
            else => self.successors(pc),
        };
    }

    fn buildBytes(self: *Program, allocator: std.mem.Allocator) Error!void {
        @setRuntimeSafety(true);
        var count: usize = 0;
        for (self.code) |code| switch (code.op) {
            .char, .char_behind, .loop_greedy, .loop_lazy, .loop_possessive => {
                count = @max(count, @as(usize, code.set) + 1);
            },
            else => {},
        };
        self.bytes = try allocator.alloc([256]Membership, count);
        for (self.bytes, 0..) |*table, set| {
            for (table, 0..) |*entry, byte| {
                entry.* = if (byte >= 0x80)
                    .decode
                else if (self.has(@intCast(set), self.classOf(@intCast(byte))))
                    .yes
                else
                    .no;
            }
        }
    }
};

const Header = struct {
    class_count: u32,
    run_count: u32,
    set_count: u32,
    code_count: u32,
    entry_count: u32,

    fn words(self: Header) u32 {
        return self.class_count / 64 + 1;
    }

    /// Checks the counts against each other and against the length. A forged header causes no
    /// out-of-bounds read and no large allocation.
    fn read(bytes: []const u8) Error!Header {
        @setRuntimeSafety(true);
        if (bytes.len < header_bytes or !std.mem.startsWith(u8, bytes, magic)) {
            return error.InvalidProgram;
        }
        var reader: Reader = .{ .bytes = bytes, .at = magic.len };
        const header: Header = .{
            .class_count = reader.take(u32),
            .run_count = reader.take(u32),
            .set_count = reader.take(u32),
            .code_count = reader.take(u32),
            .entry_count = reader.take(u32),
        };
        if (header.class_count == 0 or header.class_count > class_count_max or
            header.run_count == 0 or header.set_count == 0 or
            header.set_count > std.math.maxInt(u16) or
            header.code_count == 0 or header.code_count > code_count_max or
            header.entry_count > entry_count_max) return error.InvalidProgram;
        const expected: u64 = header_bytes + @as(u64, header.run_count) * 8 +
            @as(u64, header.set_count) * header.words() * 8 +
            @as(u64, header.code_count) * instruction_bytes + @as(u64, header.entry_count) * 8;
        if (bytes.len != expected) return error.InvalidProgram;
        return header;
    }
};

/// Reads little-endian numbers. `Header.read` has checked that there are enough bytes.
const Reader = struct {
    bytes: []const u8,
    at: usize,

    fn take(self: *Reader, comptime T: type) T {
        @setRuntimeSafety(true);
        defer self.at += @sizeOf(T);
        return std.mem.readInt(T, self.bytes[self.at..][0..@sizeOf(T)], .little);
    }

    fn takeInstruction(self: *Reader) error{InvalidProgram}!Instruction {
        @setRuntimeSafety(true);
        const op = self.take(u16);
        if (op > @intFromEnum(Op.sub_end)) return error.InvalidProgram;
        return .{
            .op = @enumFromInt(op),
            .set = self.take(u16),
            .a = self.take(u32),
            .b = self.take(u32),
            .guard_a = self.take(u16),
            .guard_b = self.take(u16),
        };
    }
};

const assemble = @import("assemble.zig").assemble;

fn expectInvalid(bytes: []const u8) !void {
    try std.testing.expectError(error.InvalidProgram, Program.init(std.testing.allocator, bytes));
}

test "program: a listing loads, and running out of memory leaks no memory" {
    const gpa = std.testing.allocator;
    const bytes = try assemble(gpa, &.{ .{ .chars = "a" }, .{ .chars = "ab", .rest = true } }, &.{
        .{ .op = .loop_greedy, .set = 0, .a = 0, .b = unbounded, .guard_a = 1 },
        .{ .op = .char, .set = 1 },
        .{ .op = .match },
    });
    defer gpa.free(bytes);
    const load = struct {
        fn load(allocator: std.mem.Allocator, serialized: []const u8) !void {
            var program = try Program.init(allocator, serialized);
            defer program.deinit(allocator);
            try std.testing.expectEqual(1, program.loop_count);
            try std.testing.expect(!program.looks_behind);
            try std.testing.expect(program.has(0, program.classOf('a')));
            try std.testing.expect(!program.has(0, program.classOf('b')));
            try std.testing.expect(program.has(1, program.classOf(0x10FFFF)));
            try std.testing.expect(!program.has(1, program.classOf('c')));
            try std.testing.expect(!program.has(1, program.class_count));
        }
    }.load;
    try std.testing.checkAllAllocationFailures(gpa, load, .{bytes});
}

test "program: truncated, oversized and foreign input is rejected" {
    const gpa = std.testing.allocator;
    const bytes = try assemble(gpa, &.{.{ .chars = "a" }}, &.{
        .{ .op = .char },
        .{ .op = .match },
    });
    defer gpa.free(bytes);
    for (0..bytes.len) |len| try expectInvalid(bytes[0..len]);
    const longer = try std.mem.concat(gpa, u8, &.{ bytes, "\x00" });
    defer gpa.free(longer);
    try expectInvalid(longer);
    bytes[0] ^= 1;
    try expectInvalid(bytes);
}

test "program: indices out of bounds are rejected" {
    const gpa = std.testing.allocator;
    const listings = [_][]const Instruction.Listed{
        &.{ .{ .op = .char, .set = 2 }, .{ .op = .match } },
        &.{ .{ .op = .jump, .a = 2 }, .{ .op = .match } },
        &.{ .{ .op = .split, .a = 1, .b = 9 }, .{ .op = .match } },
        &.{ .{ .op = .split, .a = 1, .b = 1, .guard_b = 2 }, .{ .op = .match } },
        &.{.{ .op = .char }}, // without a successor
        &.{ .{ .op = .look_ahead, .a = 7 }, .{ .op = .sub_end }, .{ .op = .match } },
        &.{ .{ .op = .loop_lazy, .a = 3, .b = 2 }, .{ .op = .match } },
    };
    for (listings) |listing| {
        const bytes = try assemble(gpa, &.{.{ .chars = "a" }}, listing);
        defer gpa.free(bytes);
        try expectInvalid(bytes);
    }
}

test "program: cycles without progress and mixed groups are rejected" {
    const gpa = std.testing.allocator;
    const listings = [_][]const Instruction.Listed{
        &.{ .{ .op = .jump, .a = 0 }, .{ .op = .match } },
        &.{
            .{ .op = .loop_greedy, .a = 0, .b = unbounded },
            .{ .op = .split, .a = 0, .b = 2 },
            .{ .op = .match },
        },
        // A look-around consumes no text.
        &.{
            .{ .op = .look_ahead, .a = 3 },
            .{ .op = .char },
            .{ .op = .sub_end },
            .{ .op = .split, .a = 0, .b = 4 },
            .{ .op = .match },
        },
        &.{.{ .op = .sub_end }},
        &.{ .{ .op = .look_ahead, .a = 1 }, .{ .op = .match } },
        // Forwards in a look-behind, and backwards outside of one.
        &.{
            .{ .op = .look_behind, .a = 3 },
            .{ .op = .char },
            .{ .op = .sub_end },
            .{ .op = .match },
        },
        &.{ .{ .op = .char_behind }, .{ .op = .match } },
    };
    for (listings) |listing| {
        const bytes = try assemble(gpa, &.{.{ .chars = "a" }}, listing);
        defer gpa.free(bytes);
        try expectInvalid(bytes);
    }
}
