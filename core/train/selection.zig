//! Pairs → the next batch of merges, and their tokens.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pairs_ = @import("pairs.zig");
const queue = @import("queue.zig");

/// Selects the next merges that would also be applied one by one, in the same order.
pub fn select(learner: anytype) Allocator.Error!void {
    learner.batch.clearRetainingCapacity();
    learner.certificate.batches += 1;
    const number: u32 = @truncate(learner.certificate.batches);
    const floor = @max(learner.options.count_min, learner.certificate.floor, 1);
    const batch_max = if (learner.options.revives) 1 else learner.options.batch_max;
    const order = learner.orderOf();
    while (learner.next_id < learner.options.ids_end and learner.batch.items.len < batch_max) {
        const owner = bestOwner(learner) orelse return;
        const best = learner.owners[owner].queue.first().?;
        if (best.count < floor) return;
        const left, const right = .{ queue.leftOf(best.pair), queue.rightOf(best.pair) };
        if (learner.batch.items.len > 0) {
            if (left == right) return;
            if (learner.right_in[left] == number or learner.left_in[right] == number) return;
        }
        // At equal counts, the order of a new pair is unknown. But by ids it comes after all
        // others, and as a piece after the shorter pair that it came from.
        const is_ordered = switch (learner.options.ties) {
            .ids, .pieces => true,
            .bytes, .order => false,
        };
        const slot = learner.owners[owner].find(best.pair).?;
        _ = learner.owners[owner].queue.pop(order);
        if (!is_ordered and learner.batch.items.len > 0) {
            const next = if (bestOwner(learner)) |other|
                learner.owners[other].queue.first().?.count
            else
                0;
            if (next == best.count) {
                return learner.owners[owner].queue.push(learner.gpa, order, best);
            }
        }
        learner.left_in[left] = number;
        learner.right_in[right] = number;
        const is_new = try accept(learner, owner, slot, best);
        if (left == right or !is_new) return;
    }
}

/// Creates the token of a pair. Returns false if a token with its bytes exists.
fn accept(
    learner: anytype,
    owner: usize,
    slot: pairs_.Slot,
    best: queue.Entry,
) Allocator.Error!bool {
    const left, const right = .{ queue.leftOf(best.pair), queue.rightOf(best.pair) };
    const both = @as(u64, learner.texts.lens[left]) + learner.texts.lens[right];
    try learner.texts.reserve(learner.gpa, both);
    const start = learner.texts.bytes.items.len;
    learner.texts.bytes.appendSliceAssumeCapacity(learner.texts.of(left));
    learner.texts.bytes.appendSliceAssumeCapacity(learner.texts.of(right));
    const found = learner.known.get(learner.texts.bytes.items[start..]);
    const new = found orelse learner.next_id;
    if (found == null) {
        learner.texts.starts[new] = @intCast(start);
        learner.texts.lens[new] = @intCast(both);
        learner.next_id += 1;
    } else learner.texts.bytes.items.len = start;
    const kinds = learner.texts.kinds;
    if (kinds.len > 0) kinds[new] = kinds[left].join(kinds[right]);
    learner.is_made[new] = true;
    try learner.batch.append(learner.gpa, .{
        .left = left,
        .right = right,
        .new = new,
        .count = best.count,
        .owner = @intCast(owner),
        .slot = slot,
    });
    try learner.learned.append(learner.gpa, .{
        .left = left,
        .right = right,
        .new = new,
        .count = best.count,
    });
    return found == null;
}

pub fn bestCount(learner: anytype) u64 {
    const owner = bestOwner(learner) orelse return 0;
    return learner.owners[owner].queue.first().?.count;
}

/// Returns the owner of the best pair, whose entry is up to date.
fn bestOwner(learner: anytype) ?usize {
    const order = learner.orderOf();
    var best: ?usize = null;
    for (learner.owners, 0..) |*owner, at| {
        refresh(learner, owner, at);
        const entry = owner.queue.first() orelse continue;
        if (best) |other| {
            if (!order.isBefore(entry, learner.owners[other].queue.first().?)) continue;
        }
        best = at;
    }
    return best;
}

/// Updates the best entries of an owner until the first one is valid.
fn refresh(learner: anytype, owner: *pairs_.Pairs, at: usize) void {
    const order = learner.orderOf();
    while (owner.queue.first()) |entry| {
        const slot = owner.find(entry.pair) orelse {
            _ = owner.queue.pop(order);
            continue;
        };
        var now = entry;
        now.count = owner.records.items[slot].count;
        if (now.count == 0) {
            _ = owner.queue.pop(order);
            continue;
        }
        if (learner.options.ties == .order and now.count == entry.count) {
            now.seen = learner.shards[0].seenFirst(at, slot, entry.pair, learner.rulesOf()).?;
        }
        if (now.count == entry.count and now.seen == entry.seen) return;
        owner.queue.replace(order, now);
    }
}
