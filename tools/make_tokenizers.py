#!/usr/bin/env python3
"""Makes tests/data/tokenizers: small tokenizers of every kind, and what the Python package tokenizers makes of texts; and
tests/data/vocabularies: SentencePiece's .model files, GGUF files and files of tiktoken, with what the packages
sentencepiece, tokenizers, tiktoken and rwkv make of texts.

    make_tokenizers.py                                       writes the goldens
    make_tokenizers.py --compare bin/lockstep [--texts N]    compares N random texts for each with `lockstep tokenize`

Every golden is a JSON: `tokenizer` is a whole tokenizer.json, trained on TEXTS below; `cases` hold `text`, `ids` (with
special tokens), `plain` (without) and `decoded`. Random texts mix words of ten scripts, single characters of all
planes, white space, digits, contractions and special tokens. Of a vocabulary `kind` is model, gguf or tiktoken, `file`
the file in base64. Needs: tokenizers (0.23.3), sentencepiece (0.2.3), tiktoken (0.14), gguf (0.19), rwkv (0.8.32).
"""
import argparse
import base64
import functools
import json
import pathlib
import random
import subprocess
import tempfile
import unicodedata

import gguf
import sentencepiece
import tiktoken
from rwkv.rwkv_tokenizer import TRIE_TOKENIZER
from sentencepiece import sentencepiece_model_pb2
from tiktoken_ext import openai_public
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXTS = [
    "The quick brown fox jumps over the lazy dog, and it's 12345 times faster; they'll say we've won! \n\n Indeed.",
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Это было давно.",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί. Ήταν μια φορά.",
    "快速的棕色狐狸跳过了懒狗。今天天气很好,我们去公园吧。", "素早い茶色の狐がのろまな犬を飛び越える。カタカナとひらがな。",
    "다람쥐 헌 쳇바퀴에 타고파. 오늘은 날씨가 좋다.", "الثعلب البني السريع يقفز فوق الكلب الكسول. السلام عليكم",
    "השועל החום המהיר קופץ מעל הכלב העצלן. שלום לכם", "तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। नमस्ते दुनिया",
    "สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ", "Zażółć gęślą jaźń. Příliš žluťoučký kůň. Fähigkeit übergroß naïve façade",
    "def f(x):\n    return x ** 2 + 3.14  # 100% sure\n\tprint(f'{x!r}')", "🙂👍🏽🚀 ½ ² ① ﬁ Ⅷ ٣٤٥ １２３ ℃ …—“quoted”",
]
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
          r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
             r"\s*[\r\n]+|\s+(?!\S)|\s+")
MARK = "\u2581"


def byte_level(pre, size=420, normalizer=None, **model):
    t = Tokenizer(models.BPE(**model))
    t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                                     special_tokens=["<|endoftext|>", "<|im_start|>"],
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return t


def split_bytes(pattern, **more):
    steps = [pre_tokenizers.Split(Regex(p), "isolated") for p in ([pattern] if isinstance(pattern, str) else pattern)]
    return byte_level(pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(False, use_regex=False)]), **more)


def sentence_piece(size=420):
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
    t.decoder = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(),
                                   decoders.Strip(" ", 1, 0)])
    words = pre_tokenizers.Metaspace()
    t.pre_tokenizer = words
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=size + 200, special_tokens=special, show_progress=False,
                                                     limit_alphabet=80))
    data = json.loads(t.to_str())
    data["pre_tokenizer"] = None
    data["added_tokens"] = data["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(data))
    t.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    return t


def metaspace(scheme):
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=scheme != "never")
    t.decoder = decoders.Metaspace(prepend_scheme=scheme)
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=330, special_tokens=["<unk>", "</s>"], show_progress=False))
    return t


def unigram(normalizer, byte_fallback=False, pre=None):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizer
    t.pre_tokenizer = pre or pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    special = ["<unk>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if byte_fallback else [])
    t.train_from_iterator(TEXTS, trainers.UnigramTrainer(vocab_size=380 + len(special), unk_token="<unk>",
                                                         special_tokens=special, show_progress=False))
    data = json.loads(t.to_str())
    data["model"]["byte_fallback"] = byte_fallback
    data["added_tokens"] = data["added_tokens"][:2]
    if byte_fallback:
        data["decoder"] = {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, data["decoder"]]}
    t = Tokenizer.from_str(json.dumps(data))
    t.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    return t


def word_piece(**normal):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20))
    t.normalizer = normalizers.BertNormalizer(**normal)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=500, show_progress=False, special_tokens=[
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    t.add_special_tokens([AddedToken("[MASK]", lstrip=True, special=True)])
    return t


def steps(pre, normalizer=None):
    t = Tokenizer(models.BPE(unk_token="?"))
    t.pre_tokenizer = pre
    t.normalizer = normalizer
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=360, special_tokens=["?"], show_progress=False))
    t.add_tokens([AddedToken("fox", single_word=True), AddedToken("LILY", normalized=True), AddedToken("park", rstrip=True)])
    return t


def clip():
    t = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    pattern = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "removed", invert=True),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=700, show_progress=False, special_tokens=["<|startoftext|>", "<|endoftext|>"], initial_alphabet=alphabet,
        end_of_word_suffix="</w>"))
    # As published: every character also at the end of a word.
    data = json.loads(t.to_str())
    vocab = data["model"]["vocab"]
    for c in sorted(alphabet):
        vocab.setdefault(c + "</w>", len(vocab))
    t = Tokenizer.from_str(json.dumps(data))
    t.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0), trim_offsets=False,
                                                    add_prefix_space=False)
    return t


def replacement_rules():
    """Some of NFKC, and what SentencePiece's own rules do with white space and control characters."""
    rules = {c: " " for c in "\t\n\r\u00a0\u3000\u2028\u200b"} | {chr(c): "" for c in list(range(1, 9)) + [0xad, 0xfeff]}
    for c in [*range(0xa8, 0x180), *range(0x1e00, 0x1f00), *range(0x2100, 0x2180), *range(0x2460, 0x2474),
              *range(0xfb00, 0xfb07), *range(0xff01, 0xff5f), 0x3a9, 0x958, 0xac00, 0x390]:
        c = chr(c)
        if unicodedata.normalize("NFKC", c) != c:
            rules[c] = unicodedata.normalize("NFKC", c)
        parts = unicodedata.normalize("NFD", c)
        if parts != c:
            rules[parts] = unicodedata.normalize("NFKC", c)
    return {what: by for what, by in rules.items() if what != by}


@functools.cache
def piece_model(kind, size=400, rules=True, **options):
    """A trained model of SentencePiece, as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "texts").write_text("\n".join(t.replace("\n", " ") for t in TEXTS))
        if rules:
            (folder / "rules").write_text("".join(
                " ".join(f"{ord(c):X}" for c in what) + "\t" + " ".join(f"{ord(c):X}" for c in by) + "\n"
                for what, by in replacement_rules().items()))
            options["normalization_rule_tsv"] = str(folder / "rules")
        else:
            options.setdefault("normalization_rule_name", "identity")
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / "texts"), model_prefix=str(folder / "m"), model_type=kind, vocab_size=size,
            character_coverage=0.98, minloglevel=2, hard_vocab_limit=False, **options)
        return (folder / "m.model").read_bytes()


def with_unused(model, step):
    """Every so manieth of the pieces with several characters is not used any more."""
    message = sentencepiece_model_pb2.ModelProto.FromString(model)
    for piece in [p for p in message.pieces if p.type == p.NORMAL and len(p.piece) > 1][::step]:
        piece.type = piece.UNUSED
    return message.SerializeToString()


def precompiled():
    table = sentencepiece_model_pb2.ModelProto.FromString(piece_model("unigram")).normalizer_spec.precompiled_charsmap
    return unigram(normalizers.Sequence([normalizers.Precompiled(table), normalizers.Replace(Regex(" {2,}"), " ")]),
                   pre=pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]))


def prefixed():
    t = Tokenizer(models.BPE(unk_token="?", continuing_subword_prefix="@@", end_of_word_suffix="</w>"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=800, special_tokens=["?"], show_progress=False,
                                                     continuing_subword_prefix="@@", end_of_word_suffix="</w>"))
    return t


P, N = pre_tokenizers, normalizers
ALL = {
    "gpt2": lambda: byte_level(P.ByteLevel(add_prefix_space=False)),
    "prefix_space": lambda: byte_level(P.ByteLevel(add_prefix_space=True)),
    "llama3": lambda: split_bytes(LLAMA3, ignore_merges=True),
    "qwen2": lambda: split_bytes(QWEN2, normalizer=N.NFC()),
    "gpt4o": lambda: split_bytes(GPT4O),
    "deepseek3": lambda: split_bytes([r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3]),
    "tekken": lambda: split_bytes(TEKKEN, ignore_merges=True),
    "deepseek_coder": lambda: split_bytes([r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}"]),
    "smollm": lambda: byte_level(P.Sequence([P.Digits(True), P.ByteLevel(add_prefix_space=False)])),
    "sentence_piece": sentence_piece,
    "metaspace_first": lambda: metaspace("first"),
    "metaspace_never": lambda: metaspace("never"),
    "unigram": lambda: unigram(N.NFKC()),
    "unigram_bytes": lambda: unigram(N.Sequence([N.NFKD(), N.Lowercase()]), True),
    "precompiled": precompiled,
    "prefixed": prefixed,
    "bert": lambda: word_piece(),
    "bert_cased": lambda: word_piece(lowercase=False, strip_accents=False, handle_chinese_chars=True),
    "whitespace": lambda: steps(P.Whitespace(), N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()])),
    "clip": clip,
    "punctuation": lambda: steps(P.Sequence([P.WhitespaceSplit(), P.Punctuation("contiguous"), P.Digits(False)]), N.Strip()),
    "previous": lambda: steps(P.Sequence([P.Split(" ", "merged_with_previous"), P.Split(Regex("[.,]+"), "merged_with_next")])),
}


def assigned(r):
    while True:
        c = chr(r.choice([r.randrange(0x250), r.randrange(0x3000), r.randrange(0xD800), r.randrange(0xE000, 0x30000)]))
        # Parts of the package use tables of different versions of Unicode: characters that all of them know.
        if unicodedata.ucd_3_2_0.category(c) not in ("Cn", "Cs", "Co"):
            return c


def random_text(r):
    words = [w for text in TEXTS for w in text.split(" ")]
    special = ["<|endoftext|>", "<s>", "</s>", "[MASK]", "fox", "LILY", "lily", "park", "<0x41>", MARK]
    result = ""
    for _ in range(r.randrange(1, 14)):
        kind = r.randrange(12)
        if kind < 4:
            result += r.choice(words) + r.choice([" ", " ", "", "  "])
        elif kind < 6:
            result += "".join(assigned(r) for _ in range(r.randrange(1, 6)))
        elif kind == 6:
            result += r.choice(["\n", "\n\n", "\t", "   ", "\r\n", "\u00a0", "\u3000", " \n ", "\u200b", "\u2028", "\x1c", "\x85"])
        elif kind == 7:
            result += str(r.randrange(10 ** r.randrange(1, 9)))
        elif kind == 8:
            result += r.choice(["'s", "'LL", "don't", "'re ", "I'm", "\u2019s", "'\u017f", "..", "!?", "--", "_x_", "a-b", "C++", "e\u0301", "\u1e9b\u0323"])
        elif kind == 9:
            text = r.choice(TEXTS)
            at = r.randrange(len(text))
            result += text[at:at + r.randrange(30)]
        elif kind == 10:
            result += r.choice(special) + r.choice(["", " ", "x"])
        else:
            result += r.choice("🙂👩‍👩‍👧🇩🇪가각ä漢ñ") + r.choice("\u0301\u0323\u0308\u05b0\u064b ")
    return result


def case(t, text):
    ids = t.encode(text).ids
    return {"text": text, "ids": ids, "plain": t.encode(text, add_special_tokens=False).ids,
            "decoded": t.decode(ids, skip_special_tokens=False)}


class Vocabulary:
    """A file that is no tokenizer.json, and its truth: encode(text) without special tokens, decode(ids)."""

    def __init__(self, kind, file, encode, decode, **more):
        self.kind, self.file, self.encode, self.decode, self.more = kind, file, encode, decode, more


def of_pieces(model):
    truth = sentencepiece.SentencePieceProcessor(model_proto=model)
    unknown = truth.unk_id()
    # The unknown token is a special one here, there a text.
    return Vocabulary("model", model, truth.encode, lambda ids: None if unknown in ids else truth.decode(ids))


def gguf_file(model, tokens, **metadata):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_tokenizer_model(model)
        writer.add_token_list(tokens)
        for name, value in metadata.items():
            getattr(writer, f"add_{name}")(value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def pieces_in_gguf(kind, model):
    """As llama.cpp's converter writes a model of SentencePiece."""
    message = sentencepiece_model_pb2.ModelProto.FromString(model)
    own = of_pieces(model)
    more = {"precompiled_charsmap": message.normalizer_spec.precompiled_charsmap} if kind == "t5" else {}
    own.file = gguf_file(kind, [p.piece.encode() for p in message.pieces], token_scores=[p.score for p in message.pieces],
                         token_types=[int(p.type) for p in message.pieces], eos_token_id=2, bos_token_id=1,
                         add_space_prefix=message.normalizer_spec.add_dummy_prefix,
                         remove_extra_whitespaces=message.normalizer_spec.remove_extra_whitespaces, **more)
    own.kind = "gguf"
    return own


def words_in_gguf(t):
    """As llama.cpp's converter writes a vocabulary of WordPiece."""
    tokens = sorted(t.get_vocab(), key=t.token_to_id)
    special = [token.startswith("[") and len(token) > 1 for token in tokens]
    marked = [x if s else x[2:] if x.startswith("##") else MARK + x for x, s in zip(tokens, special)]
    file = gguf_file("bert", [x.encode() for x in marked], token_types=[3 if s else 1 for s in special], bos_token_id=2,
                     sep_token_id=3, unk_token_id=1)
    return Vocabulary("gguf", file, lambda text: t.encode(text, add_special_tokens=False).ids,
                      lambda ids: t.decode(ids, skip_special_tokens=False))


def rwkv_in_gguf():
    """As llama.cpp's converter writes RWKV's vocabulary: bytes as Python shows them, a control token in front."""
    t = split_bytes(LLAMA3, size=900)
    to_byte = {c: b for b, c in gguf_bytes().items()}
    longer = sorted({bytes(to_byte[c] for c in token) for token in t.get_vocab()} - {bytes([b]) for b in range(256)})
    # Longest tokens are cut otherwise than merged ones: also some that no merge makes.
    own = [bytes([b]) for b in range(256)] + longer + [b"\n\n", b"it's \"", b"\\\\"]
    tokens = {i + 1: token for i, token in enumerate(dict.fromkeys(own))}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as lines:
        lines.writelines(f"{i} {token!r} {len(token)}\n" for i, token in tokens.items())
        lines.flush()
        truth = TRIE_TOKENIZER(lines.name)
    file = gguf_file("rwkv", [b"<s>"] + [repr(token)[2:-1].encode() for token in tokens.values()],
                     token_types=[3] + [1] * len(tokens))
    return Vocabulary("gguf", file, lambda text: truth.encode(text), lambda ids: truth.decodeBytes(ids).decode())


def ranks(pattern, special, fill=0):
    """Of a vocabulary that tokenizers trained, with random tokens that no text has up to `fill`."""
    t = split_bytes(LLAMA3, size=700)
    alphabet = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    to_byte = {c: b for b, c in gguf_bytes().items()}
    # Ranks in the order of merging.
    order = sorted(alphabet) + [a + b for a, b in json.loads(t.to_str())["model"]["merges"]]
    tokens = {bytes(to_byte[c] for c in token): i for i, token in enumerate(dict.fromkeys(order))}
    r = random.Random(5)
    while len(tokens) < fill:
        tokens.setdefault(r.randbytes(12), len(tokens))
    truth = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=tokens, special_tokens=special)
    file = "".join(f"{base64.b64encode(b).decode()} {i}\n" for b, i in tokens.items()).encode()
    return Vocabulary("tiktoken", file, lambda text: truth.encode(text, allowed_special="all"), truth.decode, pattern=pattern,
                      special=special)


def gguf_bytes():
    """The character of each byte in byte-level vocabularies."""
    own = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [b for b in range(256) if b not in own]
    return {b: chr(b) for b in own} | {b: chr(0x100 + i) for i, b in enumerate(others)}


@functools.cache
def openai(name):
    """Pattern and special tokens of an encoding."""
    real = openai_public.load_tiktoken_bpe
    openai_public.load_tiktoken_bpe = lambda *a, **k: {}
    made = getattr(openai_public, name)()
    openai_public.load_tiktoken_bpe = real
    return made["pat_str"], made["special_tokens"]


VOCABULARIES = {
    "unigram": lambda: of_pieces(piece_model("unigram")),
    "unigram_bytes": lambda: of_pieces(piece_model("unigram", 700, byte_fallback=True, user_defined_symbols="<sep>,fox j,1 2")),
    "unigram_unused": lambda: of_pieces(with_unused(piece_model("unigram", treat_whitespace_as_suffix=True), 5)),
    "bpe_bytes": lambda: of_pieces(piece_model("bpe", 700, False, byte_fallback=True, remove_extra_whitespaces=False,
                                               split_digits=True)),
    "bpe_user": lambda: of_pieces(with_unused(piece_model("bpe", 500, user_defined_symbols="lazy,ing,\u2581the"), 4)),
    "bpe_no_prefix": lambda: of_pieces(piece_model("bpe", 420, add_dummy_prefix=False)),
    "gguf_t5": lambda: pieces_in_gguf("t5", piece_model("unigram", 700, byte_fallback=True, user_defined_symbols="<sep>,fox j,1 2")),
    "gguf_llama": lambda: pieces_in_gguf("llama", piece_model("bpe", 700, False, byte_fallback=True,
                                                               remove_extra_whitespaces=False, split_digits=True)),
    "gguf_bert": lambda: words_in_gguf(word_piece_for_gguf()),
    "gguf_bert_cased": lambda: words_in_gguf(word_piece_for_gguf(lowercase=False, strip_accents=False)),
    "gguf_rwkv": rwkv_in_gguf,
    "tiktoken_cl100k": lambda: ranks(openai("cl100k_base")[0], {"<|endoftext|>": 1000, "<|im_start|>": 1001}),
    "tiktoken_o200k": lambda: ranks(openai("o200k_base")[0], {"<|endoftext|>": 999}),
    "tiktoken_r50k": lambda: ranks(openai("r50k_base")[0], {"<|endoftext|>": 800}),
}


def word_piece_for_gguf(**normal):
    """As published: words of up to 100 characters."""
    data = json.loads(word_piece(**normal).to_str())
    data["model"]["max_input_chars_per_word"] = 100
    data["added_tokens"] = [x | {"lstrip": False} for x in data["added_tokens"]]
    return Tokenizer.from_str(json.dumps(data))


def text_for(vocabulary, r):
    """Names of control tokens are such tokens here, and texts to SentencePiece."""
    text = random_text(r)
    if vocabulary.kind == "tiktoken":
        return text
    return text.replace("<s>", "<sep>").replace("</s>", "fox jumps").replace("<unk>", "1 2")


def write_vocabularies():
    folder = ROOT / "tests/data/vocabularies"
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in VOCABULARIES.items():
        vocabulary = make()
        r = random.Random(name)
        texts = ["", " ", "Hello, world!", "  two leading spaces "] + [text_for(vocabulary, r) for _ in range(40)]
        cases = []
        for text in texts:
            ids = vocabulary.encode(text)
            cases.append({"text": text, "ids": ids, "decoded": vocabulary.decode(ids)})
        golden = {"kind": vocabulary.kind, "file": base64.b64encode(vocabulary.file).decode(), **vocabulary.more, "cases": cases}
        (folder / f"{name}.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")


def write():
    write_vocabularies()
    folder = ROOT / "tests/data/tokenizers"
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in ALL.items():
        r = random.Random(name)
        t = make()
        texts = ["", " ", "Hello, world!", "  two leading spaces"] + [random_text(r) for _ in range(50)]
        golden = {"tokenizer": json.loads(t.to_str()), "cases": [case(t, x) for x in texts]}
        (folder / f"{name}.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")


def compare_file(command, name, path, texts, encode, show):
    """Tells how many of the texts have other tokens."""
    listed = path.parent / "texts.json"
    listed.write_text(json.dumps(texts))
    output = subprocess.run([command, "tokenize", "--model", path, "--texts", listed], capture_output=True, text=True,
                            check=True).stdout
    wrong = 0
    for text, line in zip(texts, output.splitlines(), strict=True):
        ours, theirs = json.loads(line), encode(text)
        if ours != theirs:
            wrong += 1
            if wrong < 4:
                print(name, repr(text), "\n  ours  ", show(ours), "\n  theirs", show(theirs))
    print(f"{name}: {len(texts)} texts, {wrong} different", flush=True)
    return wrong


# What stands around a text by the file's metadata.
AROUND = {"gguf_t5": lambda ids: ids + [2], "gguf_llama": lambda ids: [1] + ids, "gguf_bert": lambda ids: [2] + ids + [3],
          "gguf_bert_cased": lambda ids: [2] + ids + [3]}


def compare(command, count, seed, only):
    folder = pathlib.Path(tempfile.mkdtemp())
    total = wrong = 0
    for name in ALL:
        if only and only not in name:
            continue
        golden = json.loads((ROOT / f"tests/data/tokenizers/{name}.json").read_text())
        t = Tokenizer.from_str(json.dumps(golden["tokenizer"]))
        path = folder / "tokenizer.json"
        path.write_text(json.dumps(golden["tokenizer"]))
        r = random.Random(f"{seed} {name}")
        texts = [random_text(r) for _ in range(count)]
        wrong += compare_file(command, name, path, texts, lambda x: t.encode(x).ids, lambda ids: [t.id_to_token(i) for i in ids])
        total += count
    full = {"unigram_nmt_nfkc": lambda: of_pieces(piece_model("unigram", 1000, False, normalization_rule_name="nmt_nfkc")),
            "cl100k_base": lambda: ranks(*openai("cl100k_base"), fill=100256),
            "o200k_base": lambda: ranks(*openai("o200k_base"), fill=199998)}
    for name, make in (VOCABULARIES | full).items():
        if (only and only not in name) or name.startswith("tiktoken"):
            continue
        vocabulary = make()
        path = folder / f"{name}.{vocabulary.kind}"
        path.write_bytes(vocabulary.file)
        r = random.Random(f"{seed} {name}")
        texts = [text_for(vocabulary, r) for _ in range(count)]
        around = AROUND.get(name, lambda ids: ids)
        wrong += compare_file(command, name, path, texts, lambda x: around(vocabulary.encode(x)), lambda ids: ids)
        total += count
    print(f"{total} texts, {wrong} different")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--compare")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="names that have this text within")
    args = parser.parse_args()
    compare(args.compare, args.texts, args.seed, args.only) if args.compare else write()
