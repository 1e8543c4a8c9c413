//! The functions of the core that a binding without threads and files calls.
//!
//! `build.py` compiles this file for WebAssembly. It fails if a module needs a system.

const std = @import("std");
const core = @import("root.zig");

const encoder_ = core.encode.encoder;
const Learner = core.train.Learner(u32);

/// The addresses keep the functions, so the compiler compiles them and all that they call.
export const functions = [_]*const anyopaque{
    @ptrCast(&core.bundle.load),
    @ptrCast(&core.model_files.readModel),
    @ptrCast(&core.model_files.readFiles),
    @ptrCast(&core.normalize.Steps.apply),
    @ptrCast(&core.encode.tokenizer.Tokenizer.deinit),
    @ptrCast(&encode),
    @ptrCast(&countTokens),
    @ptrCast(&encodeWithOffsets),
    @ptrCast(&core.encode.batch.Batch.encode),
    @ptrCast(&core.encode.batch.Batch.count),
    @ptrCast(&core.truncate.prefixEnd),
    @ptrCast(&core.truncate.suffixStart),
    @ptrCast(&core.session.Session.init),
    @ptrCast(&core.session.Session.replace),
    @ptrCast(&core.documents.json_lines.read),
    @ptrCast(&core.documents.utf8.problems),
    @ptrCast(&core.count.Counter.init),
    @ptrCast(&core.count.Counter.add),
    @ptrCast(&core.count.Counter.take),
    @ptrCast(&Learner.init),
    @ptrCast(&Learner.addToken),
    @ptrCast(&Learner.addWord),
    @ptrCast(&Learner.run),
};

fn encode(encoder: *encoder_.Encoder, text: []const u8, list: *encoder_.List) !void {
    try encoder.encode(text, null, list);
}

fn countTokens(encoder: *encoder_.Encoder, text: []const u8) !usize {
    return encoder.count(text);
}

fn encodeWithOffsets(
    encoder: *encoder_.Encoder,
    text: []const u8,
    spans: *core.offsets.Spans,
) !void {
    try core.offsets.encode(encoder, text, null, spans);
}
