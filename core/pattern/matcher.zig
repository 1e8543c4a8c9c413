//! Document and program → pretokens.
//!
//! A backtracking matcher that takes linear time in the document for any pattern and text. Without
//! captures, the result of continuing with an instruction at an offset is a pure function of the
//! two, independent of the start of the match. An attempt that takes more than a few steps stores
//! such outcomes, and later attempts reuse them; ordinary text never gets there. A loop over a
//! character class is one instruction. A run of the class is scanned once, not once per start, and
//! each offset at which the continuation fails is recorded.
//!
//! Look-arounds and atomic groups run on the same stack, above a barrier. When they end, all frames
//! above the barrier are dropped, since they have a single outcome. Look-behinds have their own
//! instructions, which move backwards. Thompson's simulation, which also takes linear time,
//! supports neither atomic groups nor look-arounds.
//!
//! **Invariant**: all offsets are character boundaries, as `unicode.decode` finds them from 0.

const std = @import("std");
const unicode = @import("../unicode.zig");
const memory = @import("memory.zig");
const program_room = @import("program.zig");

const Instruction = program_room.Instruction;
const LoopCache = memory.LoopCache;
const Program = program_room.Program;
const no_offset = memory.no_offset;
const unbounded = program_room.unbounded;

/// The offsets of a match, not empty unless `takes_empty`.
pub const Match = struct { start: usize, end: usize };

const Error = error{OutOfMemory};
const State = struct { pc: u32, offset: usize };

const Frame = struct {
    const Tag = enum(u32) {
        /// The second alternative of a split: instruction and offset.
        branch,
        /// A loop that continued at `offset` and can give back down to `extra`.
        greedy,
        /// A loop that continued at `offset` and can take `extra` more characters.
        lazy,
        /// The start of a look-around or atomic group. `extra` is the barrier below.
        barrier,
        /// The outcome at this instruction and offset is to be stored.
        trail,
    };

    tag: Tag,
    pc: u32,
    offset: usize,
    extra: usize,
};

/// Scratch memory for one document, not to be shared between threads.
pub const Matcher = struct {
    gpa: std.mem.Allocator,
    program: *const Program,
    text: []const u8,
    takes_empty: bool = false, // whether empty matches are returned
    /// One past the last byte that `next` examined, or `text.len + 1` after the end of the text.
    /// Changes of the text from there on do not affect the match.
    reach: usize = 0,
    /// Steps since `init`: instructions, characters of loops, and backtracking.
    steps: u64 = 0,
    /// Steps of an attempt before outcomes are stored. Ordinary patterns take about 10 per match.
    /// Tests set it to 0.
    free_steps_max: u32 = 256,

    /// Value of `steps` from which on outcomes are stored, now and in this attempt. A look-behind
    /// has its own allowance. Without it, a loop over 1 MB would take 900 MB.
    free_steps_end: u64 = 0,
    attempt_free_steps_end: u64 = 0,
    /// Maximum `reach` so far. Stored outcomes may depend on all of it.
    reach_max: usize = 0,
    stack: std.ArrayList(Frame) = .empty,
    barrier: usize = no_offset,
    loops: []LoopCache = &.{},
    memo: memory.Memo = .{},

    pub fn init(gpa: std.mem.Allocator, program: *const Program, text: []const u8) Matcher {
        return .{ .gpa = gpa, .program = program, .text = text };
    }

    pub fn deinit(self: *Matcher) void {
        self.stack.deinit(self.gpa);
        self.gpa.free(self.loops);
        self.memo.deinit(self.gpa);
        self.* = undefined;
    }

    /// Starts another document and keeps the memory.
    pub fn reset(self: *Matcher, text: []const u8) void {
        self.text = text;
        self.reach_max = 0;
        @memset(self.loops, .{});
        self.memo.clear(self.gpa);
    }

    /// Returns the leftmost match at or after `start`, a character boundary. An empty match is
    /// skipped together with the character after it, as in tiktoken.
    pub fn next(self: *Matcher, start: usize) Error!?Match {
        if (self.loops.len != self.program.loop_count) {
            self.loops = try self.gpa.alloc(LoopCache, self.program.loop_count);
            @memset(self.loops, .{});
        }
        self.memo.forgetBefore(self.gpa, start);
        self.reach = start;
        defer self.reach_max = @max(self.reach_max, self.reach);
        var offset = start;
        while (offset < self.text.len) {
            const char = unicode.decode(self.text, offset);
            self.see(offset, char);
            self.attempt_free_steps_end = self.steps + self.free_steps_max;
            self.free_steps_end = self.attempt_free_steps_end;
            for (self.program.entriesOf(char.code_point)) |entry| {
                const end = try self.run(.{ .pc = entry, .offset = offset }) orelse continue;
                if (self.takes_empty or end > offset) return .{ .start = offset, .end = end };
                break;
            }
            self.steps += 1;
            offset += char.len;
        }
        self.reach = self.text.len + 1;
        return null;
    }

    /// Returns the end of the match that continues with `start`, or null.
    fn run(self: *Matcher, start: State) Error!?usize {
        const program = self.program;
        self.stack.clearRetainingCapacity();
        self.barrier = no_offset;
        var state = start;
        while (true) {
            const instruction = &program.code[state.pc];
            self.steps += 1;
            const goes_on = switch (instruction.op) {
                .match => return state.offset,
                .char => self.charAhead(instruction.set, &state),
                .char_behind => self.charBehind(instruction.set, &state),
                .loop_possessive => self.loopPossessive(instruction, &state),
                .loop_greedy, .loop_lazy, .split => choice: {
                    if (self.remembers()) {
                        if (try self.recall(&state)) |known| break :choice known;
                    }
                    break :choice switch (instruction.op) {
                        .split => try self.split(instruction, &state),
                        .loop_lazy => try self.loopLazy(instruction, &state),
                        else => try self.loopGreedy(instruction, &state),
                    };
                },
                .jump => jump: {
                    state.pc = instruction.a;
                    break :jump true;
                },
                .peek_ahead => self.peek(instruction.set, self.classAt(state.offset), &state),
                .peek_behind => self.peek(instruction.set, self.classBefore(state.offset), &state),
                .look_ahead, .look_ahead_not, .atomic => try self.startGroup(&state),
                .look_behind, .look_behind_not => behind: {
                    self.free_steps_end = self.steps + self.free_steps_max;
                    break :behind try self.startGroup(&state);
                },
                .sub_end => try self.endGroup(&state),
            };
            if (!goes_on and !try self.backtrack(&state)) return null;
        }
    }

    // Characters

    inline fn peek(self: *const Matcher, set: u16, class: u32, state: *State) bool {
        state.pc += 1;
        return self.program.has(set, class);
    }

    inline fn charAhead(self: *Matcher, set: u16, state: *State) bool {
        state.offset += self.memberLen(set, state.offset) orelse return false;
        state.pc += 1;
        return true;
    }

    fn charBehind(self: *Matcher, set: u16, state: *State) bool {
        if (state.offset == 0) return false;
        const char = unicode.decodeBefore(self.text, state.offset);
        if (!self.program.has(set, self.program.classOf(char.code_point))) return false;
        state.offset -= char.len;
        state.pc += 1;
        return true;
    }

    /// Returns the length of the character at `offset` if it is in `set`.
    inline fn memberLen(self: *Matcher, set: u16, offset: usize) ?usize {
        if (offset >= self.text.len) {
            self.reach = self.text.len + 1;
            return null;
        }
        const byte = self.text[offset];
        if (byte < 0x80) {
            self.reach = @max(self.reach, offset + 1);
            return if (self.program.bytes[set][byte] == .yes) 1 else null;
        }
        const char = unicode.decode(self.text, offset);
        self.see(offset, char);
        const is_member = self.program.has(set, self.program.classOf(char.code_point));
        return if (is_member) char.len else null;
    }

    /// Returns the class of the character at `offset`, or the edge.
    inline fn classAt(self: *Matcher, offset: usize) u32 {
        if (offset >= self.text.len) {
            self.reach = self.text.len + 1;
            return self.program.class_count;
        }
        const char = unicode.decode(self.text, offset);
        self.see(offset, char);
        return self.program.classOf(char.code_point);
    }

    fn classBefore(self: *const Matcher, offset: usize) u32 {
        if (offset == 0) return self.program.class_count;
        return self.program.classOf(unicode.decodeBefore(self.text, offset).code_point);
    }

    inline fn lenBefore(self: *const Matcher, offset: usize) usize {
        if (self.text[offset - 1] < 0x80) return 1;
        return unicode.decodeBefore(self.text, offset).len;
    }

    /// Extends the reach. An invalid sequence was ended by the byte after it, or by the text's end.
    inline fn see(self: *Matcher, offset: usize, char: unicode.Char) void {
        const cut = @intFromBool(char.code_point == unicode.replacement);
        self.reach = @max(self.reach, offset + char.len + cut);
    }

    // Loops

    inline fn loopPossessive(self: *Matcher, instruction: *const Instruction, state: *State) bool {
        const start = state.offset;
        const least = instruction.a;
        if (instruction.b == unbounded) {
            const end = self.runEnd(instruction, start);
            if (least > 0 and end == start) return false;
            if (least > 1 and self.scan(instruction.set, start, least).count < least) return false;
            state.offset = end;
        } else {
            const found = self.scan(instruction.set, start, instruction.b);
            if (found.count < least) return false;
            state.offset = found.end;
        }
        state.pc += 1;
        return true;
    }

    fn loopGreedy(self: *Matcher, instruction: *const Instruction, state: *State) Error!bool {
        const least = self.scan(instruction.set, state.offset, instruction.a);
        if (least.count < instruction.a) return false;
        const end = if (instruction.b == unbounded)
            self.runEnd(instruction, least.end)
        else
            self.scan(instruction.set, least.end, instruction.b - instruction.a).end;
        return self.giveBack(.{ .pc = state.pc, .offset = end }, least.end, state);
    }

    fn loopLazy(self: *Matcher, instruction: *const Instruction, state: *State) Error!bool {
        const least = self.scan(instruction.set, state.offset, instruction.a);
        if (least.count < instruction.a) return false;
        const is_bounded = instruction.b != unbounded;
        const more: usize = if (is_bounded) instruction.b - instruction.a else no_offset;
        return self.takeMore(.{ .pc = state.pc, .offset = least.end }, more, state);
    }

    const Scan = struct { end: usize, count: usize };

    /// Scans up to `count_max` characters of `set` from `start`.
    inline fn scan(self: *Matcher, set: u16, start: usize, count_max: usize) Scan {
        var found: Scan = .{ .end = start, .count = 0 };
        while (found.count < count_max) : (found.count += 1) {
            found.end += self.memberLen(set, found.end) orelse break;
        }
        self.steps += found.count;
        return found;
    }

    /// Returns the end of the run of the loop's class that contains or begins at `start`.
    inline fn runEnd(self: *Matcher, instruction: *const Instruction, start: usize) usize {
        const cache = &self.loops[instruction.guard_b];
        var end = start;
        if (cache.hasRun(start)) {
            end = cache.run_end;
        } else {
            // A cached run farther on is not scanned again.
            const is_before = start < cache.run_start and cache.run_start <= cache.run_end;
            const limit = if (is_before) cache.run_start else self.text.len;
            end = self.scanRun(instruction.set, start, limit);
            self.steps += end - start;
            if (is_before and end == limit) end = cache.run_end;
            cache.run_start = start;
            cache.run_end = end;
        }
        // Includes the character that ends the run in the reach.
        _ = self.classAt(end);
        return end;
    }

    pub inline fn scanRun(self: *const Matcher, set: u16, start: usize, limit: usize) usize {
        const table = &self.program.bytes[set];
        var end = start;
        while (end < limit) {
            switch (table[self.text[end]]) {
                .yes => end += 1,
                .no => break,
                .decode => {
                    const char = unicode.decode(self.text, end);
                    if (!self.program.has(set, self.program.classOf(char.code_point))) break;
                    end += char.len;
                },
            }
        }
        return end;
    }

    /// Continues after the greedy loop `at.pc` at `at.offset`, or at the next lower offset down to
    /// `least` where the continuation can match.
    fn giveBack(self: *Matcher, at: State, least: usize, state: *State) Error!bool {
        const instruction = &self.program.code[at.pc];
        const cache = &self.loops[instruction.guard_b];
        var offset = at.offset;
        while (true) {
            if (cache.failedAt(offset)) {
                self.reach = @max(self.reach, self.reach_max);
                offset = cache.failed_low;
            } else if (self.program.has(instruction.guard_a, self.classAt(offset))) {
                break;
            } else {
                cache.failBelow(self.text, offset);
            }
            if (offset <= least) return false;
            offset -= self.lenBefore(offset);
            self.steps += 1;
        }
        // At the lowest offset the loop cannot give back more. The frame then only records the
        // failure.
        if (offset > least or self.steps > self.free_steps_end) {
            try self.push(.greedy, .{ .pc = at.pc, .offset = offset }, least);
        }
        state.* = .{ .pc = at.pc + 1, .offset = offset };
        return true;
    }

    /// Continues after the lazy loop `at.pc` at `at.offset`, or at the next higher offset where the
    /// continuation can match, at most `count_max` characters farther.
    fn takeMore(self: *Matcher, at: State, count_max: usize, state: *State) Error!bool {
        const instruction = &self.program.code[at.pc];
        const cache = &self.loops[instruction.guard_b];
        var offset = at.offset;
        var more = count_max;
        while (true) {
            // With a bound, the skipped characters would have to be counted.
            if (more == no_offset and cache.failedAt(offset)) {
                self.reach = @max(self.reach, self.reach_max);
                offset = cache.failed_high;
            } else if (self.program.has(instruction.guard_a, self.classAt(offset))) {
                break;
            } else {
                self.failAbove(instruction, offset);
            }
            if (more == 0) return false;
            offset += self.memberLen(instruction.set, offset) orelse return false;
            if (more != no_offset) more -= 1;
            self.steps += 1;
        }
        if (more > 0) try self.push(.lazy, .{ .pc = at.pc, .offset = offset }, more);
        state.* = .{ .pc = at.pc + 1, .offset = offset };
        return true;
    }

    /// Records that the continuation of the lazy loop fails at `offset`.
    fn failAbove(self: *Matcher, instruction: *const Instruction, offset: usize) void {
        const cache = &self.loops[instruction.guard_b];
        const high = cache.failed_high;
        const touches = cache.failed_low <= high and high < offset and
            high + (self.memberLen(instruction.set, high) orelse 0) == offset;
        cache.failAbove(offset, touches);
    }

    // Choices and groups

    inline fn split(self: *Matcher, instruction: *const Instruction, state: *State) Error!bool {
        const class = self.classAt(state.offset);
        const first = self.program.has(instruction.guard_a, class);
        const second = self.program.has(instruction.guard_b, class);
        if (first and second) {
            try self.push(.branch, .{ .pc = instruction.b, .offset = state.offset }, 0);
        }
        state.pc = if (first) instruction.a else instruction.b;
        return first or second;
    }

    fn startGroup(self: *Matcher, state: *State) Error!bool {
        try self.push(.barrier, state.*, self.barrier);
        self.barrier = self.stack.items.len - 1;
        state.pc += 1;
        return true;
    }

    /// Ends the innermost group, which matches up to `state.offset`.
    fn endGroup(self: *Matcher, state: *State) Error!bool {
        const base = self.barrier;
        const frame = self.stack.items[base];
        if (self.remembers()) {
            for (self.stack.items[base + 1 ..]) |above| {
                if (above.tag != .trail) continue;
                const outcome: memory.Outcome = @enumFromInt(state.offset);
                try self.memo.put(self.gpa, above.pc, above.offset, outcome);
            }
        }
        self.stack.shrinkRetainingCapacity(base);
        const opening = self.leaveGroup(frame);
        state.pc = opening.a;
        switch (opening.op) {
            .look_ahead, .look_behind => state.offset = frame.offset,
            .look_ahead_not, .look_behind_not => return false,
            else => {},
        }
        return true;
    }

    /// Returns the instruction that opened the group with this barrier.
    fn leaveGroup(self: *Matcher, frame: Frame) *const Instruction {
        self.barrier = frame.extra;
        self.free_steps_end = self.attempt_free_steps_end;
        return &self.program.code[frame.pc];
    }

    /// Returns to the last choice. Returns false if there is none.
    fn backtrack(self: *Matcher, state: *State) Error!bool {
        while (self.stack.pop()) |frame| {
            self.steps += 1;
            switch (frame.tag) {
                .branch => {
                    state.* = .{ .pc = frame.pc, .offset = frame.offset };
                    return true;
                },
                .greedy => if (try self.retryGreedy(frame, state)) return true,
                .lazy => if (try self.retryLazy(frame, state)) return true,
                .barrier => {
                    const opening = self.leaveGroup(frame);
                    if (opening.op == .look_ahead_not or opening.op == .look_behind_not) {
                        state.* = .{ .pc = opening.a, .offset = frame.offset };
                        return true;
                    }
                },
                .trail => try self.memo.put(self.gpa, frame.pc, frame.offset, .failed),
            }
        }
        return false;
    }

    fn retryGreedy(self: *Matcher, frame: Frame, state: *State) Error!bool {
        const cache = &self.loops[self.program.code[frame.pc].guard_b];
        cache.failBelow(self.text, frame.offset);
        if (frame.offset <= frame.extra) return false;
        const offset = frame.offset - self.lenBefore(frame.offset);
        return self.giveBack(.{ .pc = frame.pc, .offset = offset }, frame.extra, state);
    }

    fn retryLazy(self: *Matcher, frame: Frame, state: *State) Error!bool {
        const instruction = &self.program.code[frame.pc];
        self.failAbove(instruction, frame.offset);
        const len = self.memberLen(instruction.set, frame.offset) orelse return false;
        const more = if (frame.extra == no_offset) no_offset else frame.extra - 1;
        const at: State = .{ .pc = frame.pc, .offset = frame.offset + len };
        return self.takeMore(at, more, state);
    }

    inline fn push(self: *Matcher, tag: Frame.Tag, at: State, extra: usize) Error!void {
        const frame: Frame = .{ .tag = tag, .pc = at.pc, .offset = at.offset, .extra = extra };
        try self.stack.append(self.gpa, frame);
    }

    // Outcomes

    inline fn remembers(self: *const Matcher) bool {
        return self.steps > self.free_steps_end or !self.memo.isEmpty();
    }

    /// Returns null if the outcome at `state` is unknown. Otherwise applies it, and returns whether
    /// to continue.
    fn recall(self: *Matcher, state: *State) Error!?bool {
        if (self.memo.get(state.pc, state.offset)) |outcome| {
            self.reach = @max(self.reach, self.reach_max);
            if (outcome == .failed) return false;
            // Success is stored only inside groups. Outside of groups it ends the match.
            state.offset = @intFromEnum(outcome);
            return try self.endGroup(state);
        }
        if (self.steps > self.free_steps_end) try self.push(.trail, state.*, 0);
        return null;
    }
};

test "matcher: greedy loops give back, and the leftmost alternative wins" {
    var fixture = try Fixture.init(&sets_abc, &star_then_b);
    defer fixture.deinit();
    try fixture.expect("aab|a|a", "aabaa");
    try fixture.expect("b|b|a|a", "bbcaca");
    try fixture.expect("", "ccc");
    try fixture.expect("", "");
}

test "matcher: lazy loops take as few characters as possible" {
    // a*?b|a
    var code = star_then_b;
    code[1].op = .loop_lazy;
    var fixture = try Fixture.init(&sets_abc, &code);
    defer fixture.deinit();
    try fixture.expect("aab|a|a", "aabaa");
    // [ab]*?b
    code[1].set = 2;
    var wide = try Fixture.init(&sets_abc, &code);
    defer wide.deinit();
    try wide.expect("ab|ab|b|a", "ababba");
}

test "matcher: an empty match is skipped with the character after it" {
    // a*
    var fixture = try Fixture.init(&sets_abc, &.{
        .{ .op = .loop_greedy, .set = 0, .b = unbounded, .guard_a = all },
        .{ .op = .match },
    });
    defer fixture.deinit();
    try fixture.expect("aa|a", "baabba");
}

test "matcher: look-arounds do not move, and atomic groups do not give back" {
    // (?=a*b)a, then (?<=ab)[ab], then (?>[ab]*)b
    var ahead = try Fixture.init(&sets_abc, &.{
        .{ .op = .look_ahead, .a = 4 },
        .{ .op = .loop_greedy, .set = 0, .b = unbounded, .guard_a = all },
        .{ .op = .char, .set = 1 },
        .{ .op = .sub_end },
        .{ .op = .char, .set = 0 },
        .{ .op = .match },
    });
    defer ahead.deinit();
    try ahead.expect("a|a", "aabaa");
    var behind = try Fixture.init(&sets_abc, &.{
        .{ .op = .look_behind, .a = 4 },
        .{ .op = .char_behind, .set = 1 },
        .{ .op = .char_behind, .set = 0 },
        .{ .op = .sub_end },
        .{ .op = .char, .set = 2 },
        .{ .op = .match },
    });
    defer behind.deinit();
    try std.testing.expect(behind.program.looks_behind);
    try behind.expect("a|a|b", "abababb");
    var atomic = try Fixture.init(&sets_abc, &.{
        .{ .op = .atomic, .a = 3 },
        .{ .op = .loop_greedy, .set = 2, .b = unbounded, .guard_a = all },
        .{ .op = .sub_end },
        .{ .op = .char, .set = 1 },
        .{ .op = .match },
    });
    defer atomic.deinit();
    try atomic.expect("", "abab");
}

test "matcher: an invalid sequence is one character" {
    // one character that is not ASCII
    const code = [_]Instruction.Listed{ .{ .op = .char }, .{ .op = .match } };
    var fixture = try Fixture.init(&.{.{ .rest = true }}, &code);
    defer fixture.deinit();
    const text = "\xF0\x9F\x98a\xFF\xE2\x82\xAC\xE2\x82";
    try fixture.expect("\xF0\x9F\x98|\xFF|\xE2\x82\xAC|\xE2\x82", text);
}

test "matcher: the reach covers all examined text" {
    var fixture = try Fixture.init(&sets_abc, &star_then_b);
    defer fixture.deinit();
    var matcher: Matcher = .init(std.testing.allocator, &fixture.program, "aabaac");
    defer matcher.deinit();
    _ = try matcher.next(0);
    try std.testing.expectEqual(3, matcher.reach);
    _ = try matcher.next(3); // tried aa, then c for a b
    try std.testing.expectEqual(6, matcher.reach);
    _ = try matcher.next(5);
    try std.testing.expectEqual(7, matcher.reach);
    matcher.reset("ab");
    try std.testing.expectEqual(Match{ .start = 0, .end = 2 }, (try matcher.next(0)).?);
}

test "matcher: steps are linear in the text" {
    var loop = try Fixture.init(&sets_abc, &star_then_b);
    defer loop.deinit();
    try loop.expectLinear("a");
    var lazy_code = star_then_b;
    lazy_code[1].op = .loop_lazy;
    var lazy = try Fixture.init(&sets_abc, &lazy_code);
    defer lazy.deinit();
    try lazy.expectLinear("a");
    var group = try Fixture.init(&sets_abc, &group_then_c);
    defer group.deinit();
    try group.expectLinear("a");
    try group.expectLinear("aba");
}

test "matcher: steps inside look-arounds and atomic groups are linear in the text" {
    // a(?=a*b)|a
    var ahead = try Fixture.init(&sets_abc, &.{
        .{ .op = .split, .a = 1, .b = 7, .guard_a = all, .guard_b = all },
        .{ .op = .char, .set = 0 },
        .{ .op = .look_ahead, .a = 6 },
        .{ .op = .loop_greedy, .set = 0, .b = unbounded, .guard_a = all },
        .{ .op = .char, .set = 1 },
        .{ .op = .sub_end },
        .{ .op = .match },
        .{ .op = .char, .set = 0 },
        .{ .op = .match },
    });
    defer ahead.deinit();
    try ahead.expectLinear("a");
    // (?>(?:[ab]|[ab][ab])*c)b|[ab]: the group succeeds from each start, but the match fails
    var atomic = try Fixture.init(&sets_abc, &.{
        .{ .op = .split, .a = 1, .b = 11, .guard_a = all, .guard_b = all },
        .{ .op = .atomic, .a = 9 },
        .{ .op = .split, .a = 3, .b = 7, .guard_a = all, .guard_b = all },
        .{ .op = .split, .a = 5, .b = 4, .guard_a = all, .guard_b = all },
        .{ .op = .char, .set = 2 },
        .{ .op = .char, .set = 2 },
        .{ .op = .jump, .a = 2 },
        .{ .op = .char, .set = 4 },
        .{ .op = .sub_end },
        .{ .op = .char, .set = 1 },
        .{ .op = .match },
        .{ .op = .char, .set = 2 },
        .{ .op = .match },
    });
    defer atomic.deinit();
    try atomic.expectLinear("ab");
}

test "matcher: running out of memory leaks no memory" {
    var fixture = try Fixture.init(&sets_abc, &group_then_c);
    defer fixture.deinit();
    const match = struct {
        fn match(gpa: std.mem.Allocator, program: *const Program) !void {
            var matcher: Matcher = .init(gpa, program, "aababaabaaabaababaabaaabaababaabaaab");
            defer matcher.deinit();
            matcher.free_steps_max = 0;
            var at: usize = 0;
            while (try matcher.next(at)) |found| at = found.end;
        }
    }.match;
    try std.testing.checkAllAllocationFailures(std.testing.allocator, match, .{&fixture.program});
}

const assemble = @import("assemble.zig");

/// A program for one test.
const Fixture = struct {
    program: Program,

    fn init(sets: []const assemble.Set, code: []const Instruction.Listed) !Fixture {
        const bytes = try assemble.assemble(std.testing.allocator, sets, code);
        defer std.testing.allocator.free(bytes);
        return .{ .program = try .init(std.testing.allocator, bytes) };
    }

    fn deinit(self: *Fixture) void {
        self.program.deinit(std.testing.allocator);
    }

    /// Checks that the matches are `wanted`, separated by '|', with and without stored outcomes.
    fn expect(self: *Fixture, wanted: []const u8, text: []const u8) !void {
        for ([_]u32{ 256, 0 }) |free_steps_max| {
            var matcher: Matcher = .init(std.testing.allocator, &self.program, text);
            defer matcher.deinit();
            matcher.free_steps_max = free_steps_max;
            var found: std.ArrayList(u8) = .empty;
            defer found.deinit(std.testing.allocator);
            var at: usize = 0;
            while (try matcher.next(at)) |match| {
                if (found.items.len > 0) try found.append(std.testing.allocator, '|');
                try found.appendSlice(std.testing.allocator, text[match.start..match.end]);
                at = match.end;
            }
            try std.testing.expectEqualStrings(wanted, found.items);
        }
    }

    fn countSteps(self: *Fixture, text: []const u8) !u64 {
        var matcher: Matcher = .init(std.testing.allocator, &self.program, text);
        defer matcher.deinit();
        var at: usize = 0;
        while (try matcher.next(at)) |match| at = match.end;
        return matcher.steps;
    }

    /// Checks that twice the text takes at most about twice the steps.
    fn expectLinear(self: *Fixture, unit: []const u8) !void {
        const gpa = std.testing.allocator;
        const text = try gpa.alloc(u8, 16_000);
        defer gpa.free(text);
        for (text, 0..) |*byte, index| byte.* = unit[index % unit.len];
        // The c lets some patterns succeed, but only at the end.
        for ([_]u8{ unit[0], 'c' }) |last| {
            text[text.len / 2 - 1] = last;
            text[text.len - 1] = last;
            const half = try self.countSteps(text[0 .. text.len / 2]);
            text[text.len / 2 - 1] = unit[0];
            const whole = try self.countSteps(text);
            try std.testing.expect(whole * 10 <= half * 22 + 40_000);
        }
    }
};

const all = 3;
const sets_abc = [_]assemble.Set{
    .{ .chars = "a" },
    .{ .chars = "b" },
    .{ .chars = "ab" },
    .{ .chars = "abc \n", .rest = true, .edge = true },
    .{ .chars = "c" },
};

// a*b|a
const star_then_b = [_]Instruction.Listed{
    .{ .op = .split, .a = 1, .b = 4, .guard_a = all, .guard_b = all },
    .{ .op = .loop_greedy, .set = 0, .b = unbounded, .guard_a = all },
    .{ .op = .char, .set = 1 },
    .{ .op = .match },
    .{ .op = .char, .set = 0 },
    .{ .op = .match },
};

// (?:[ab]|[ab][ab])*c|[ab]
const group_then_c = [_]Instruction.Listed{
    .{ .op = .split, .a = 1, .b = 8, .guard_a = all, .guard_b = all },
    .{ .op = .split, .a = 2, .b = 6, .guard_a = all, .guard_b = all },
    .{ .op = .split, .a = 4, .b = 3, .guard_a = all, .guard_b = all },
    .{ .op = .char, .set = 2 },
    .{ .op = .char, .set = 2 },
    .{ .op = .jump, .a = 1 },
    .{ .op = .char, .set = 4 },
    .{ .op = .match },
    .{ .op = .char, .set = 2 },
    .{ .op = .match },
};
