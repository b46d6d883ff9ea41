#!/usr/bin/env python3
"""Makes tests/data/tokenizers: small tokenizers of every kind, and what the Python package tokenizers makes of texts.

    make_tokenizers.py                                       writes the goldens
    make_tokenizers.py --compare bin/lockstep [--texts N]    compares N random texts for each with `lockstep tokenize`

Every golden is a JSON: `tokenizer` is a whole tokenizer.json, trained on TEXTS below; `cases` hold `text`, `ids` (with
special tokens), `plain` (without) and `decoded`. Random texts mix words of ten scripts, single characters of all
planes, white space, digits, contractions and special tokens. Needs: tokenizers (0.23.3).
"""
import argparse
import json
import pathlib
import random
import subprocess
import tempfile
import unicodedata

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


def unigram(normalizer, byte_fallback=False):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Metaspace()
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


P, N = pre_tokenizers, normalizers
ALL = {
    "gpt2": lambda: byte_level(P.ByteLevel(add_prefix_space=False)),
    "prefix_space": lambda: byte_level(P.ByteLevel(add_prefix_space=True)),
    "llama3": lambda: split_bytes(LLAMA3, ignore_merges=True),
    "qwen2": lambda: split_bytes(QWEN2, normalizer=N.NFC()),
    "gpt4o": lambda: split_bytes(GPT4O),
    "deepseek3": lambda: split_bytes([r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3]),
    "smollm": lambda: byte_level(P.Sequence([P.Digits(True), P.ByteLevel(add_prefix_space=False)])),
    "sentence_piece": sentence_piece,
    "metaspace_first": lambda: metaspace("first"),
    "metaspace_never": lambda: metaspace("never"),
    "unigram": lambda: unigram(N.NFKC()),
    "unigram_bytes": lambda: unigram(N.Sequence([N.NFKD(), N.Lowercase()]), True),
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


def write():
    folder = ROOT / "tests/data/tokenizers"
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in ALL.items():
        r = random.Random(name)
        t = make()
        texts = ["", " ", "Hello, world!", "  two leading spaces"] + [random_text(r) for _ in range(50)]
        golden = {"tokenizer": json.loads(t.to_str()), "cases": [case(t, x) for x in texts]}
        (folder / f"{name}.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")


def compare(command, count, seed):
    folder = pathlib.Path(tempfile.mkdtemp())
    total = wrong = 0
    for name in ALL:
        golden = json.loads((ROOT / f"tests/data/tokenizers/{name}.json").read_text())
        t = Tokenizer.from_str(json.dumps(golden["tokenizer"]))
        (folder / "tokenizer.json").write_text(json.dumps(golden["tokenizer"]))
        r = random.Random(f"{seed} {name}")
        texts = [random_text(r) for _ in range(count)]
        (folder / "texts.json").write_text(json.dumps(texts))
        output = subprocess.run([command, "tokenize", "--model", folder / "tokenizer.json", "--texts", folder / "texts.json"],
                                capture_output=True, text=True, check=True).stdout
        shown = 0
        for text, line in zip(texts, output.splitlines(), strict=True):
            ours, theirs = json.loads(line), t.encode(text).ids
            total += 1
            if ours != theirs:
                wrong += 1
                shown += 1
                if shown < 4:
                    print(name, repr(text), "\n  ours  ", [t.id_to_token(i) for i in ours], "\n  theirs", [t.id_to_token(i) for i in theirs])
        print(f"{name}: {count} texts, {shown} different", flush=True)
    print(f"{total} texts, {wrong} different")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--compare")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    compare(args.compare, args.texts, args.seed) if args.compare else write()
