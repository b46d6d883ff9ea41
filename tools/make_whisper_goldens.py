#!/usr/bin/env python3
"""Makes tests/data/language/whisper: a sound, a tokenizer and a generation_config.json for the tiny random Whisper, the
features that transformers' WhisperFeatureExtractor gives, and the tokens of its generate().

    pip install torch transformers safetensors
    python tools/make_whisper_goldens.py LM/whisper tests/data/language/whisper
"""
import json
import pathlib
import sys
import wave

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|fr|>", "<|translate|>", "<|transcribe|>",
           "<|notimestamps|>"]
END = 197
FIRST_TIME = END + len(SPECIAL)


def make_sound():
    """1.5 s of a rising tone, a beat and a little noise, in 16 bits."""
    t = np.arange(24000) / 16000
    noise = np.random.default_rng(7).standard_normal(len(t))
    sound = 0.4 * np.sin(2 * np.pi * (200 + 900 * t) * t) + 0.2 * np.sin(2 * np.pi * 3000 * t) * (t % 0.25 < 0.1) + 0.01 * noise
    return np.round(sound * 32767).astype(np.int16)


def make_tokenizer(path):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    # As many bytes as there is room for; the others are never written.
    vocabulary = {symbol: i for i, symbol in enumerate(alphabet[:END])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(f"<|{i * 0.02:.2f}|>") for i in range(256 - FIRST_TIME)])
    assert tokenizer.token_to_id("<|endoftext|>") == END and tokenizer.get_vocab_size() == 256
    tokenizer.save(str(path))


def main():
    source, out = sys.argv[1], pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    sound = make_sound()
    with wave.open(str(out / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(sound.tobytes())
    make_tokenizer(out / "tokenizer.json")
    ids = {name: END + i for i, name in enumerate(SPECIAL)}
    config = {"decoder_start_token_id": ids["<|startoftranscript|>"], "eos_token_id": END, "pad_token_id": END,
              "bos_token_id": END, "no_timestamps_token_id": ids["<|notimestamps|>"], "is_multilingual": True,
              "lang_to_id": {name: ids[name] for name in ("<|en|>", "<|de|>", "<|fr|>")},
              "task_to_id": {"translate": ids["<|translate|>"], "transcribe": ids["<|transcribe|>"]},
              "suppress_tokens": [1, 2, 3, 199], "begin_suppress_tokens": [40, END], "max_initial_timestamp_index": 20,
              "max_length": 64}
    (out / "generation_config.json").write_text(json.dumps(config, indent=2) + "\n")

    samples = sound.astype(np.float32) / 32768
    extractor = WhisperFeatureExtractor(feature_size=80, chunk_length=1)
    windows = [samples[:16000], samples[16000:]]
    features = [extractor(w, sampling_rate=16000, return_tensors="pt").input_features for w in windows]
    long = WhisperFeatureExtractor(feature_size=128, chunk_length=1)
    save_file({"window": features[0][0].contiguous(), "rest": features[1][0].contiguous(),
               "window_128": long(windows[0], sampling_rate=16000, return_tensors="pt").input_features[0].contiguous()},
              out / "features.safetensors")
    model = WhisperForConditionalGeneration.from_pretrained(source, dtype=torch.float32, attn_implementation="eager")
    model.generation_config = GenerationConfig(**config)
    golden = {}
    for name, options in {"detect": {}, "english": {"language": "en"}, "german": {"language": "de"},
                          "translate": {"language": "fr", "task": "translate"}}.items():
        options = {"task": "transcribe"} | options
        for times in (False, True):
            rows = []
            for window in features:
                with torch.no_grad():
                    result = model.generate(window, return_timestamps=times, do_sample=False, num_beams=1,
                                            return_dict_in_generate=True, force_unique_generate_call=True, **options)
                rows.append(result.sequences[0].tolist())
            golden[name + ("_times" if times else "")] = rows
    (out / "tokens.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
