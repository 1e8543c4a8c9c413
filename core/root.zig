//! The core of tokenmill: bytes and ids, independent of Python.
//!
//!     training:  documents ▶ pretokens ▶ count ▶ train
//!     encoding:  bytes ▶ preprocess ▶ pretokens ▶ encode ▶ offsets, session

pub const platform = @import("platform.zig");
pub const failure = @import("failure.zig");
pub const unicode = @import("unicode.zig");
pub const pretokens = @import("pretokens.zig");
pub const normalize = @import("normalize.zig");
pub const vocabulary = @import("vocabulary.zig");
pub const model_files = @import("model_files.zig");
pub const added = @import("added.zig");
pub const documents = @import("documents.zig");
pub const count = @import("count.zig");
pub const train = @import("train.zig");
pub const merge = @import("merge.zig");
pub const preprocess = @import("preprocess.zig");
pub const encode = struct {
    pub const batch = @import("encode/batch.zig");
    pub const encoder = @import("encode/encoder.zig");
    pub const tokenizer = @import("encode/tokenizer.zig");
};
pub const bundle = @import("bundle.zig");
pub const offsets = @import("offsets.zig");
pub const session = @import("session.zig");
pub const truncate = @import("session/truncate.zig");

test {
    _ = platform;
    _ = failure;
    _ = @import("heap.zig");
    _ = unicode;
    _ = pretokens;
    _ = normalize;
    _ = vocabulary;
    _ = model_files;
    _ = added;
    _ = documents;
    _ = count;
    _ = train;
    _ = merge;
    _ = preprocess;
    _ = encode.batch;
    _ = encode.encoder;
    _ = encode.tokenizer;
    _ = @import("encode/narrow.zig");
    _ = @import("encode/ragged.zig");
    _ = @import("encode/reference.zig");
    _ = bundle;
    _ = @import("fuzz.zig");
    _ = offsets;
    _ = session;
    _ = truncate;
}
