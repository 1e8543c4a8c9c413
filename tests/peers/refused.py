"""The tests of the peers that are not run with our drop-ins, and why."""

UNIGRAM = "Unigram models, which are refused"
WORDS = "WordPiece and WordLevel models, which are refused"
BERT = "BertNormalizer and BertPreTokenizer, which are refused"
PYTHON = "components written in Python, which are refused"
DECODERS = "the decoders CTC and WordPiece, which are refused: they are of other models"
CHARACTERS = "training on characters, which is refused"
TEXTS = "compares a repr or the text of an error, which are ours"
TRAINERS = "trainers of other models, and ParityBpeTrainer, which are refused"
DEADLOCK = "expects that encoding hangs after a fork; here it does not"
FILES = "needs files that must be downloaded"
ROBERTA = "needs RoBERTa's ids; the real library also fails with the substitute"

REFUSED: dict[str, dict[str, str]] = {
    "tiktoken": {},
    "tokenizers": {
        "bindings/test_decoders.py::TestWordPiece::test_decoding": DECODERS,
        "bindings/test_decoders.py::TestCTCDecoder::test_decoding": DECODERS,
        "bindings/test_decoders.py::TestSequenceDecoder::test_decoding": DECODERS,
        "bindings/test_models.py::TestUnigram": UNIGRAM,
        "bindings/test_models.py::TestWordPiece": WORDS,
        "bindings/test_models.py::TestWordLevel": WORDS,
        "bindings/test_normalizers.py::TestBertNormalizer::test_strip_accents": BERT,
        "bindings/test_normalizers.py::TestBertNormalizer::test_handle_chinese_chars": BERT,
        "bindings/test_normalizers.py::TestBertNormalizer::test_clean_text": BERT,
        "bindings/test_normalizers.py::TestBertNormalizer::test_lowercase": BERT,
        "bindings/test_normalizers.py::TestCustomNormalizer": PYTHON,
        "bindings/test_pre_tokenizers.py::TestCustomPreTokenizer": PYTHON,
        "bindings/test_tokenizer.py::TestTokenizer::test_decode_skip_special_tokens": FILES,
        "bindings/test_tokenizer.py::TestTokenizer::test_decode_stream": UNIGRAM,
        "bindings/test_tokenizer.py::TestTokenizer::"
        "test_multiprocessing_with_parallelism": DEADLOCK,
        "bindings/test_tokenizer.py::TestTokenizer::test_from_pretrained": FILES,
        "bindings/test_tokenizer.py::TestTokenizer::test_from_pretrained_revision": FILES,
        "bindings/test_tokenizer.py::TestTokenizer::test_unigram_byte_fallback": UNIGRAM,
        "bindings/test_tokenizer.py::TestTokenizer::test_encode_special_tokens": FILES,
        "bindings/test_tokenizer.py::TestTokenizer::test_splitting": FILES,
        "bindings/test_trainers.py::TestWordPieceTrainer": TRAINERS,
        "bindings/test_trainers.py::TestWordLevelTrainer": TRAINERS,
        "bindings/test_trainers.py::TestUnigram::test_train": UNIGRAM,
        "bindings/test_trainers.py::TestUnigram::"
        "test_train_parallelism_with_custom_pretokenizer": PYTHON,
        "bindings/test_trainers.py::TestUnigram::test_can_pickle": TRAINERS,
        "bindings/test_trainers.py::TestUnigram::test_train_with_special_tokens": UNIGRAM,
        "bindings/test_trainers.py::TestUnigram::test_cannot_train_different_model": TRAINERS,
        "bindings/test_trainers.py::TestUnigram::test_can_modify": TRAINERS,
        "bindings/test_trainers.py::TestUnigram::"
        "test_continuing_prefix_trainer_mismatch": CHARACTERS,
        "bindings/test_trainers.py::TestParityBpeTrainer": TRAINERS,
        "documentation/test_tutorial_train_from_iterators.py": UNIGRAM,
        "implementations/test_base_tokenizer.py": UNIGRAM,
        "implementations/test_bert_wordpiece.py": WORDS,
        "implementations/test_byte_level_bpe.py::TestByteLevelBPE::test_basic_encode": ROBERTA,
        "implementations/test_byte_level_bpe.py::TestByteLevelBPE::test_add_prefix_space": ROBERTA,
        "implementations/test_byte_level_bpe.py::TestByteLevelBPE::test_lowerspace": ROBERTA,
        "implementations/test_byte_level_bpe.py::TestByteLevelBPE::"
        "test_multiprocessing_with_parallelism": DEADLOCK,
        "implementations/test_char_bpe.py": CHARACTERS,
        "implementations/test_sentencepiece.py::TestSentencePieceBPE": CHARACTERS,
        "implementations/test_sentencepiece.py::TestSentencePieceUnigram": UNIGRAM,
        "test_serialization.py::TestSerialization::test_repr_str": TEXTS,
        "test_serialization.py::TestSerialization::test_repr_str_ellipsis": UNIGRAM,
    },
}
