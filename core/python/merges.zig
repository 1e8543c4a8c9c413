//! Learning merges as a Python object: `tokenmill._native.Learner`.
//!
//! The caller adds tokens and words, runs it once, without the GIL, and reads the merges. While it
//! runs it is busy, and any other call on it is an error.

const std = @import("std");
const platform = @import("../platform.zig");
const api = @import("api.zig");
const buffer = @import("buffer.zig");
const core_ = @import("core.zig");
const counts = @import("../count.zig");
const merges = @import("../train.zig");
const counts_ = @import("counts.zig");
const counts_files = @import("counts_files.zig");
const Text = @import("text.zig").Text;
const words = @import("words.zig");

const gpa = buffer.gpa;
const Args = core_.Args;
const Object = api.Object;

const no_id = words.no_id;

/// Uses two bytes per token if that is enough.
const Learner = union(enum) {
    narrow: merges.Learner(u16),
    wide: merges.Learner(u32),

    fn init(options: merges.Options) !Learner {
        if (options.ids_end <= 1 << 16) return .{ .narrow = try .init(gpa, options) };
        return .{ .wide = try .init(gpa, options) };
    }

    fn deinit(self: *Learner) void {
        switch (self.*) {
            inline else => |*learner| learner.deinit(),
        }
    }
};

/// An instance of `tokenmill._native.Learner`.
const Instance = extern struct {
    head: Object,
    state: ?*State,

    fn of(object: *Object) *State {
        const self: *Instance = @ptrCast(@alignCast(object));
        return self.state.?;
    }
};

const State = struct {
    learner: Learner,
    alphabet: [256]u32,
    is_busy: bool = false,
    /// The thread that runs it and reports its progress, if there is one.
    runner: ?platform.threads.Id = null,
    has_run: bool = false,
    /// Number of pairs in the words. Their counts must stay below 2^63.
    pairs: u64 = 0,

    pub fn account(self: *State, pairs: u64) error{CountsTooLarge}!void {
        const sum = std.math.add(u64, self.pairs, pairs) catch return error.CountsTooLarge;
        if (sum > std.math.maxInt(i64)) return error.CountsTooLarge;
        self.pairs = sum;
    }
};

/// Learner(alphabet, tokens, token_lengths, token_ids, ties, first_id, made_from, ids_end,
///         count_min, len_end, threads, memory, revives, scripts)
fn new(object_type: *api.Type, tuple: *Object, _: ?*Object) callconv(.c) ?*Object {
    const args = counts_.argumentsOf(14, "Learner", tuple) orelse return null;
    var ties = Text.from(args[4]) orelse return null;
    defer ties.release();
    var numbers: [8]u64 = undefined;
    for (&numbers, args[5..13]) |*number, object| {
        const given = api.PyLong_AsLongLong(object);
        if (api.PyErr_Occurred() != null) return null;
        number.* = std.math.cast(u64, given) orelse
            return core_.fail(api.valueError(), "{d} is negative", .{given});
    }
    const ids_end = numbers[2];
    if (ids_end > merges.ids_end_max or numbers[0] > ids_end) {
        return core_.fail(api.valueError(), "vocabulary size {d} is too large", .{ids_end});
    }
    const made = Learner.init(.{
        .ties = std.meta.stringToEnum(merges.Ties, ties.bytes) orelse
            return core_.fail(api.valueError(), "ties must be ids, bytes, order or pieces", .{}),
        .first_id = @intCast(numbers[0]),
        .made_from = @intCast(@min(numbers[1], ids_end)),
        .ids_end = @intCast(ids_end),
        .count_min = numbers[3],
        .len_end = @intCast(@min(numbers[4], std.math.maxInt(u32))),
        .threads = @intCast(std.math.clamp(numbers[5], 1, 256)),
        .memory = @intCast(numbers[6]),
        .revives = numbers[7] != 0,
    }) catch return api.PyErr_NoMemory();
    const state = gpa.create(State) catch {
        var moved = made;
        moved.deinit();
        return api.PyErr_NoMemory();
    };
    state.* = .{ .learner = made, .alphabet = @splat(no_id) };
    if (!addTokens(state, args[0..4]) or !setScripts(state, args[3], args[13])) {
        return discard(state);
    }
    const object = api.PyType_GenericAlloc(object_type, 0) orelse return discard(state);
    const instance: *Instance = @ptrCast(@alignCast(object));
    instance.state = state;
    return object;
}

fn discard(state: *State) ?*Object {
    state.learner.deinit();
    gpa.destroy(state);
    return null;
}

/// Reads (alphabet, tokens, token_lengths, token_ids) of the constructor; false if an exception is
/// set.
fn addTokens(state: *State, args: *const [4]*Object) bool {
    const alphabet = core_.numbersFrom(u32, args[0]) orelse return false;
    defer gpa.free(alphabet);
    const tokens = core_.numbersFrom(u8, args[1]) orelse return false;
    defer gpa.free(tokens);
    const lengths = core_.numbersFrom(u32, args[2]) orelse return false;
    defer gpa.free(lengths);
    const numbers = core_.numbersFrom(u32, args[3]) orelse return false;
    defer gpa.free(numbers);
    if (alphabet.len != 256 or lengths.len != numbers.len) {
        _ = core_.fail(api.valueError(), "expected 256 ids of bytes, and a length per id", .{});
        return false;
    }
    @memcpy(&state.alphabet, alphabet);
    var start: usize = 0;
    switch (state.learner) {
        inline else => |*learner| {
            for (alphabet) |id| if (id != no_id) {
                if (id >= learner.options.first_id) return large(id);
                learner.tokens_end = @max(learner.tokens_end, id + 1);
            };
            for (lengths, numbers) |length, id| {
                if (id >= learner.options.first_id) return large(id);
                if (length > tokens.len - start) return large(length);
                learner.addToken(id, tokens[start..][0..length]) catch {
                    _ = api.PyErr_NoMemory();
                    return false;
                };
                start += length;
            }
        },
    }
    return true;
}

/// Sets the script of each token, for `Ties.pieces`; false if an exception is set.
fn setScripts(state: *State, ids: *Object, scripts: *Object) bool {
    const numbers = core_.numbersFrom(u32, ids) orelse return false;
    defer gpa.free(numbers);
    const of_tokens = core_.numbersFrom(u32, scripts) orelse return false;
    defer gpa.free(of_tokens);
    switch (state.learner) {
        inline else => |*learner| {
            const wanted = if (learner.options.ties == .pieces) numbers.len else 0;
            if (of_tokens.len != wanted) {
                _ = core_.fail(api.valueError(), "expected a script for each token", .{});
                return false;
            }
            for (numbers[0..wanted], of_tokens) |id, script| learner.setScript(id, script);
        },
    }
    return true;
}

fn large(number: u32) bool {
    _ = core_.fail(api.valueError(), "{d} is too large", .{number});
    return false;
}

fn dealloc(object: *Object) callconv(.c) void {
    const instance: *Instance = @ptrCast(@alignCast(object));
    if (instance.state) |state| _ = discard(state);
    counts_.free(object);
}

/// Returns the state if words can be added; otherwise an exception is set.
fn open(object: *Object) ?*State {
    const state = Instance.of(object);
    if (!state.is_busy and !state.has_run) return state;
    api.PyErr_SetString(api.runtimeError(), "this learner is running or has already run");
    return null;
}

fn busy() ?*Object {
    return core_.fail(api.runtimeError(), "another thread is using this learner", .{});
}

/// spill(files): stores the words to be added in open files, one per thread
fn spill(self: *Object, args: Args) ?*Object {
    const files = core_.numbersFrom(u32, args[0]) orelse return null;
    defer gpa.free(files);
    const state = open(self) orelse return null;
    switch (state.learner) {
        inline else => |*learner| {
            if (!takesFiles(learner.shards, files)) {
                return core_.fail(api.valueError(), "expected a file per thread before words", .{});
            }
            for (learner.shards, files[0..learner.shards.len]) |*shard, file| {
                shard.spillTo(@bitCast(file)) catch |failure| return switch (failure) {
                    error.OutOfMemory => api.PyErr_NoMemory(),
                    error.FileNotOpen => {
                        // Only some of the words would be stored in files.
                        state.has_run = true;
                        return core_.fail(api.valueError(), "file {d} is not open", .{file});
                    },
                };
            }
        },
    }
    return api.none();
}

/// Whether the partitions have no words and no files, and there is a distinct file for each.
fn takesFiles(shards: anytype, files: []const u32) bool {
    if (files.len < shards.len) return false;
    for (shards, 0..) |*shard, index| {
        if (shard.words.count > 0 or shard.spill != null) return false;
        if (std.mem.indexOfScalar(u32, files[0..index], files[index]) != null) return false;
    }
    return true;
}

/// add(counts): adds the pretokens of an Inventory or a CountsFile as words of the alphabet's ids
fn add(self: *Object, args: Args) ?*Object {
    const state = open(self) orelse return null;
    const module = counts_.stateOf(self.type);
    const inventory = counts_.inventoryOf(module, args[0]);
    if (inventory == null and !counts_files.isFile(module, args[0])) {
        return core_.fail(api.typeError(), "expected an Inventory or a CountsFile", .{});
    }
    const file = if (inventory == null) counts_files.borrow(args[0]) orelse return null else null;
    defer if (file != null) counts_files.giveBack(args[0]);
    state.is_busy = true;
    var unlocked: core_.Unlocked = .begin();
    const outcome = switch (state.learner) {
        inline else => |*learner| if (inventory) |some|
            words.addInventory(state, learner, some)
        else
            words.addFile(state, learner, &file.?.reader),
    };
    unlocked.end();
    state.is_busy = false;
    outcome catch |failure| {
        // An unknown part of the words was added.
        state.has_run = true;
        return switch (failure) {
            error.CountsTooLarge => failAdding(error.CountsTooLarge),
            else => |other| counts_.fail(module, other, if (file) |some| &some.report else &.{}),
        };
    };
    return api.none();
}

fn failAdding(failure: error{ CountsTooLarge, OutOfMemory }) ?*Object {
    return switch (failure) {
        error.CountsTooLarge => core_.fail(
            api.valueError(),
            "the counts of all pairs add up to 2^63 or more; use smaller weights",
            .{},
        ),
        error.OutOfMemory => api.PyErr_NoMemory(),
    };
}

/// add_ids(ids, lengths, counts): adds words of existing tokens, concatenated
fn addIds(self: *Object, args: Args) ?*Object {
    const numbers = core_.numbersFrom(u32, args[0]) orelse return null;
    defer gpa.free(numbers);
    const lengths = core_.numbersFrom(u32, args[1]) orelse return null;
    defer gpa.free(lengths);
    const amounts = core_.numbersFrom(u64, args[2]) orelse return null;
    defer gpa.free(amounts);
    const state = open(self) orelse return null;
    var total: u64 = 0;
    for (lengths) |length| total += length;
    if (lengths.len != amounts.len or total != numbers.len) {
        return core_.fail(api.valueError(), "lengths, counts and ids are inconsistent", .{});
    }
    addWords(state, numbers, lengths, amounts) catch |failure| {
        state.has_run = true;
        return switch (failure) {
            error.NoSuchId => core_.fail(api.valueError(), "a word has an unknown token id", .{}),
            else => |other| failAdding(other),
        };
    };
    return api.none();
}

fn addWords(
    state: *State,
    numbers: []const u32,
    lengths: []const u32,
    amounts: []const u64,
) error{ NoSuchId, CountsTooLarge, OutOfMemory }!void {
    var start: usize = 0;
    switch (state.learner) {
        inline else => |*learner| for (lengths, amounts, 0..) |length, count, index| {
            const word = numbers[start..][0..length];
            start += length;
            if (length < 2) continue;
            const most = std.mem.max(u32, word);
            if (most >= learner.options.first_id) return error.NoSuchId;
            learner.tokens_end = @max(learner.tokens_end, most + 1);
            try state.account(std.math.mul(u64, length, count) catch return error.CountsTooLarge);
            const tokens = try learner.addWord(index % learner.shards.len, length, count);
            for (tokens, word) |*token, id| token.* = @intCast(id);
        },
    }
}

/// The poll during a run: checks for signals, and reports progress to the caller.
const Asking = struct {
    unlocked: core_.Unlocked,
    state: *State,
    progress: ?*Object,

    fn ask(context: *anyopaque) bool {
        const self: *Asking = @ptrCast(@alignCast(context));
        api.PyEval_RestoreThread(self.unlocked.saved);
        const stops = api.PyErr_CheckSignals() != 0 or !self.report();
        self.unlocked.saved = api.PyEval_SaveThread();
        return stops;
    }

    /// Calls progress(merges, count); false if an exception is set.
    fn report(self: *Asking) bool {
        const progress = self.progress orelse return true;
        const done, const last = switch (self.state.learner) {
            inline else => |*learner| .{ learner.doneNow(), learner.lastCount() },
        };
        const numbers = core_.pairOf(
            api.PyLong_FromUnsignedLongLong(done),
            api.PyLong_FromUnsignedLongLong(last),
        ) orelse return false;
        defer api.Py_DecRef(numbers);
        const answer = api.PyObject_CallObject(progress, numbers) orelse return false;
        api.Py_DecRef(answer);
        return true;
    }
};

/// run(progress): learns the merges; progress(merges, count) is called periodically
fn run(self: *Object, args: Args) ?*Object {
    const state = open(self) orelse return null;
    state.is_busy = true;
    state.has_run = true;
    state.runner = platform.threads.currentId();
    var asking: Asking = .{
        .unlocked = .begin(),
        .state = state,
        .progress = if (api.isNone(args[0])) null else args[0],
    };
    const outcome = switch (state.learner) {
        inline else => |*learner| blk: {
            learner.poll = .{ .context = &asking, .function = Asking.ask };
            break :blk learner.run();
        },
    };
    asking.unlocked.end();
    state.is_busy = false;
    state.runner = null;
    outcome catch |failure| return switch (failure) {
        error.OutOfMemory => api.PyErr_NoMemory(),
        error.Interrupted => null,
    };
    return api.none();
}

/// merges(start) → (lefts, rights, ids, counts) from merge `start` on, as Buffers of u32 and u64;
/// during a run, callable from `progress`, with the merges so far
fn learned(self: *Object, args: Args) ?*Object {
    const state = Instance.of(self);
    if (state.is_busy and state.runner != platform.threads.currentId()) return busy();
    const start: usize = @intCast(api.PyLong_AsUnsignedLongLongMask(args[0]));
    const buffer_type = counts_.stateOf(self.type).buffer_type.?;
    const all = switch (state.learner) {
        inline else => |*learner| learner.learned.items[0..learner.doneNow()],
    };
    const some = all[@min(start, all.len)..];
    const tuple = api.PyTuple_New(4) orelse return null;
    inline for (.{ "left", "right", "new", "count" }, 0..) |name, index| {
        const Number = @FieldType(merges.Learned, name);
        const column = gpa.alloc(Number, some.len) catch {
            api.Py_DecRef(tuple);
            return api.PyErr_NoMemory();
        };
        for (column, some) |*number, one| number.* = @field(one, name);
        const kind = if (Number == u64) .u64 else .u32;
        const made = buffer.create(buffer_type, kind, column) orelse {
            api.Py_DecRef(tuple);
            return null;
        };
        _ = api.PyTuple_SetItem(tuple, index, made);
    }
    return tuple;
}

/// certificate() → (floor, rescans, batches, scans, visits, bytes)
fn certificate(self: *Object, _: Args) ?*Object {
    const state = Instance.of(self);
    if (state.is_busy) return busy();
    const found, const bytes = switch (state.learner) {
        inline else => |*learner| .{ learner.certificate, learner.bytes() },
    };
    const numbers = [_]u64{
        found.floor, found.rescans, found.batches, found.scans, found.visits, bytes,
    };
    const tuple = api.PyTuple_New(numbers.len) orelse return null;
    for (numbers, 0..) |number, index| {
        const made = api.PyLong_FromUnsignedLongLong(number) orelse {
            api.Py_DecRef(tuple);
            return null;
        };
        _ = api.PyTuple_SetItem(tuple, @intCast(index), made);
    }
    return tuple;
}

const methods = [_]api.Method{
    core_.method("spill", 1, spill),
    core_.method("add", 1, add),
    core_.method("add_ids", 3, addIds),
    core_.method("run", 1, run),
    core_.method("merges", 1, learned),
    core_.method("certificate", 0, certificate),
    .{},
};
const slots = [_]api.TypeSlot{
    .{ .slot = api.tp_new, .function = @ptrCast(&new) },
    .{ .slot = api.tp_dealloc, .function = @ptrCast(&dealloc) },
    .{ .slot = api.tp_methods, .function = @ptrCast(&methods) },
    .{},
};
pub const spec: api.TypeSpec = .{
    .name = "tokenmill._native.Learner",
    .basicsize = @sizeOf(Instance),
    .flags = api.TPFLAGS_DEFAULT | api.TPFLAGS_IMMUTABLETYPE,
    .slots = &slots,
};
